-- count: the jobs stand for the permits. AVAILABLE has those that are ready.
if capacity then -- a semaphore whose version was lost
  return redis.error_reply('REDSEMVERSION 1')
end
capacity, held = redis.call('HLEN', JOBS), redis.call('HLEN', LOCKED)
local had = capacity > 0                                     -- there were jobs
local lasting = tonumber(redis.call('HGET', NAME, 'lasting')) -- ms: the last job ends then; nil: never

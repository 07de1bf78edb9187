-- inspect: one reading of everything.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4] most holders, waiters and jobs to list.
-- Reply: see open, then 1 if it exists, else 0 and nothing more; capacity; permits
-- free; permits held; number of holders; number of waiters; the holders whose leases
-- end first, two elements each: token, record; the waiters nearest to the head,
-- three each: entry, ticket, 1 if its process is alive; of a queue: see list.
-- It changes nothing but what any step does: reclaim, serve, mend.
--@include open
--@include work
--@include list
if not exists() then
  return {now, 0, '', 0}
end
begin()
serve()
local grants = settle()
local last = tonumber(ARGV[4]) - 1
local holders, waiters = {}, {}
for _, token in ipairs(redis.call('ZRANGE', LEASES, 0, last)) do
  holders[#holders + 1] = token
  holders[#holders + 1] = redis.call('HGET', LOCKED, token)
end
local queued = redis.call('ZRANGE', QUEUE, 0, last, 'WITHSCORES')
for i = 1, #queued, 2 do
  local client = string.match(queued[i], '^%S+ %d+ %d+ (%S+) ') or ''
  local till = tonumber(redis.call('ZSCORE', CLIENTS, client) or '') or 0
  waiters[#waiters + 1] = queued[i]
  waiters[#waiters + 1] = tonumber(queued[i + 1])
  waiters[#waiters + 1] = till > now and 1 or 0
end
return {now, more, grants, 1, capacity, math.max(capacity - held, 0), held,
  redis.call('HLEN', LOCKED), redis.call('ZCARD', QUEUE), holders, waiters, list(last)}

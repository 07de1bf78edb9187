-- release: give permits back; they go to the head of the queue, else to the list.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4] token; [5] a name for this call, the
-- same when it is sent again; of a queue: [6] 1: the job is done, 0: it goes back.
-- Reply: see open, then 1 if the token held, else 0; permits free now.
-- A token that holds nothing changes nothing. Run twice: the second answers as
-- the first did, as long as its name is among the last releases.
--@include open
local token, call = ARGV[4], ARGV[4] .. ' ' .. ARGV[5]
local record = redis.call('HGET', LOCKED, token)
local n, ends, fence = parse(record)

-- remember keeps the call among the last releases. A list of a wrong type does not
-- fail the step.
local function remember()
  local length = tonumber(redis.pcall('LPUSH', RELEASED, call))
  if length and length <= 2 then
    redis.call('PEXPIRE', RELEASED, ttl + KEEP) -- it is asked for as long as a release is sent again
  elseif length and length > 2048 then
    redis.call('LTRIM', RELEASED, 0, 1023)
  end
end

if not ends or ends <= now then
  local free = capacity and held and math.max(capacity - held, 0) or 0
  for _, done in ipairs(redis.call('LRANGE', RELEASED, 0, -1)) do
    if done == call then
      return {now, 0, '', 1, free}
    end
  end
  -- A record of permits that was evicted is mended if the lease is still there.
  if record or not MENDED or tonumber(redis.call('ZSCORE', LEASES, token) or 0) <= now then
    return {now, 0, '', 0, free}
  end
end

--@include short_release
--@include work
begin()
drop(token, ARGV[6])
gone(token)
serve()
local grants = settle()
remember()
return {now, more, grants, 1, math.max(capacity - held, 0)}

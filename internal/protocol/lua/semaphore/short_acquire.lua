-- short_acquire: what an acquire is most of the time.
--
-- The short cut: nothing to mend, refresh or reclaim, and nobody waits. The
-- count in the name decides, not the list: should the list fall short, or be none,
-- the next begin() mends it or fails.
if plain and not repeated and 2 * lease <= ttl and held + n <= capacity and redis.call('ZCARD', QUEUE) == 0 then
  local records = redis.call('HLEN', LOCKED)
  local first = tonumber(redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2])
  local sound = records <= held and (records > 0) == (held > 0) and (first ~= nil) == (held > 0)
  if sound and (not first or first > now) then
    local ends, fence = now + lease, math.max(seq + 1, clock)
    local record = string.format('%.0f %.0f %.0f %.0f ', n, ends, fence, now) .. owner
    if redis.call('HSETNX', LOCKED, token, record) == 1 then
      redis.pcall('LTRIM', AVAILABLE, n, -1)
      redis.call('ZADD', LEASES, ends, token)
      redis.call('HSET', NAME, 'held', held + n, 'seq', string.format('%.0f', fence))
      if held == 0 then
        redis.call('PEXPIRE', LOCKED, ttl)
        redis.call('PEXPIRE', LEASES, ttl)
      end
      return {now, 0, '', 1, ends, fence, capacity}
    end
  end
end

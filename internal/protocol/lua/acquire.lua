-- acquire: take permits at once, or a place in the queue.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4] token; [5] permits; [6] 1: queue if they
-- are not free, 0: a try; [7] server time in ms after which the call is void
-- (it was delayed for so long that its sender has given up), 0 for never;
-- [8] owner; [9] 1 if the call was sent before, without an answer, else 0.
-- Reply: see open, then
--   1, end of lease (ms), fence, capacity      granted
--   2, ticket, next end of a lease, capacity, places before this one    queued
--   0, 0, 0, capacity                          a try, and none free
--   3, 0, 0, 0                                 void
-- Run twice: a token that holds gets its grant again; one that is queued keeps
-- its ticket.
--@include open
local UNDER_WAY = 4000 -- ms: how long a call without a void time may be under way
local token, n, void, owner = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[7]), ARGV[8]
if void > 0 and now > void then
  return {now, 0, '', 3, 0, 0, 0}
end

-- A call that was repeated may come once more, when its token has been granted
-- and released: such a token is not to be granted again. It is looked for while
-- that is possible, among the last releases.
if now <= late and redis.call('LPOS', RELEASED, token) then
  return {now, 0, '', 3, 0, 0, 0}
end
if ARGV[9] == '1' then
  late = math.max(late, void > 0 and void or now + UNDER_WAY)
end

-- The short cut: nothing to mend, refresh or reclaim, and nobody waits. The
-- count in the name decides, not the list: should the list fall short, or be none,
-- the next begin() mends it or fails.
if plain and 2 * lease <= ttl and held + n <= capacity and redis.call('ZCARD', QUEUE) == 0 then
  local records = redis.call('HLEN', LOCKED)
  local first = tonumber(redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2])
  local sound = records <= held and (records > 0) == (held > 0) and (first ~= nil) == (held > 0)
  if sound and (not first or first > now) then
    local ends, fence = now + lease, math.max(seq + 1, clock)
    local record = string.format('%.0f %.0f %.0f %.0f ', n, ends, fence, now) .. owner
    if redis.call('HSETNX', LOCKED, token, record) == 1 then
      redis.pcall('LPOP', AVAILABLE, n)
      redis.call('ZADD', LEASES, ends, token)
      redis.call('HSET', NAME, 'held', held + n, 'seq', string.format('%.0f', fence))
      if ARGV[9] == '1' then
        redis.call('HSET', NAME, 'late', late)
      end
      if held == 0 then
        redis.call('PEXPIRE', LOCKED, ttl)
        redis.call('PEXPIRE', LEASES, ttl)
      end
      return {now, 0, '', 1, ends, fence, capacity}
    end
  end
end

--@include work
begin()
serve()
local outcome, first, second, places = 0, 0, 0, 0
local member = table.concat({token, ARGV[5], ARGV[3], self, owner}, ' ')
local record = redis.call('HGET', LOCKED, token)
local _, ends, fence = holding(record)
if record and not ends then -- it has ended, with more others than one call reclaims
  drop(token)
  serve()
end
local ticket = redis.call('ZSCORE', QUEUE, member)
if ends then
  outcome, first, second = 1, ends, tonumber(fence)
elseif ticket then
  mark()
  outcome, first, second, places = 2, tonumber(ticket), next_end(), redis.call('ZRANK', QUEUE, member)
elseif held + n <= capacity and redis.call('ZCARD', QUEUE) == 0 then
  outcome, first, second = 1, now + lease, next_number()
  take(n)
  hold(token, n, first, second, owner)
elseif ARGV[6] == '1' then
  outcome, first, second, places = 2, next_number(), next_end(), redis.call('ZCARD', QUEUE)
  join(member, first)
end
if ARGV[9] == '1' then
  redis.call('HSET', NAME, 'late', late)
end
local grants = settle()
return {now, more, grants, outcome, first, second, capacity, places}

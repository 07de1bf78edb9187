-- acquire: take permits at once, or a place in the queue.
--
-- KEYS, ARGV[1..3]: see open. ARGV[4..6]: see heed; the call's name is its token.
-- ARGV: [7] permits; [8] 1: queue if they are not free, 0: a try; [9] owner; of a
-- queue: [10] see hand.
-- Reply: see open, then
--   1, end of lease (ms), fence, capacity, 0      granted; of a queue: see hand
--   2, ticket, next end of a lease, capacity, places before this one    queued
--   0, 0, 0, capacity, 0                          a try, and none free
--   3, 0, 0, 0                                    void
--   4, 0, 0, capacity, 0                          more permits than there are
-- Run twice: a token that holds gets its grant again; one that is queued keeps
-- its ticket.
--@include open
--@include heed
local UNDER_WAY = 4000 -- ms: how long a call without a void time may be under way
local token, n, owner = call, tonumber(ARGV[7]), ARGV[9]
if repeated then
  late = math.max(late, void > 0 and math.min(void, now + LONGEST) or now + UNDER_WAY)
end

-- A call that was repeated may come once more, when the hold of its token has
-- ended: such a token is not to be granted again. It is looked for while that
-- is possible.
if (now <= late or not seq) and taken(token) then
  return VOID
end

--@include short_acquire
--@include work
begin()
serve()
local outcome, first, second, places = 0, 0, 0, 0
local member = table.concat({token, ARGV[7], ARGV[3], self, owner}, ' ')
local record = redis.call('HGET', LOCKED, token)
local _, ends, fence = holding(record)
if record and not ends then -- it has ended, with more others than one call reclaims
  drop(token)
  serve()
end
local ticket = redis.call('ZSCORE', QUEUE, member)
local over = not ends and now <= late and taken(token) -- it ended just now
if over then
  outcome = 3
elseif ends then
  outcome, first, second = 1, ends, tonumber(fence)
elseif ticket then
  mark()
  outcome, first, second, places = 2, tonumber(ticket), next_end(), redis.call('ZRANK', QUEUE, member)
elseif n > most() then
  outcome = 4
elseif redis.call('ZCARD', QUEUE) == 0 and fits(n) then
  outcome, first, second = 1, now + lease, next_number()
  give(token, n, first, second, owner)
elseif ARGV[8] == '1' then
  outcome, first, second, places = 2, next_number(), next_end(), redis.call('ZCARD', QUEUE)
  join(member, first)
end
if repeated then
  outlive(late) -- lest the record of what a copy would find be gone before
  redis.call('HSET', NAME, 'late', late)
  if outcome == 0 or outcome == 4 then
    note(token, late) -- a copy shall not find more than this one
  end
end
local reply = {now, more, '', outcome, first, second, capacity, places}
if outcome == 1 then
  hand(token, reply)
end
reply[3] = settle()
return reply

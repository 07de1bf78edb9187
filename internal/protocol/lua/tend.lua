-- tend: all that a process with waiters or renewed leases has to say and to
-- learn, in one call.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4] 1: the process has waiters, 0: it has
-- none; [5] number of leases to renew; [6] of waiters that leave; [7] of waiters
-- to queue again; [8] of waiters to look for; [9] server time in ms after which
-- nobody is queued again (the call was delayed for so long that its sender has
-- given up), 0 for never; then these lists: token and lease
-- (ms); token and queue entry; token, queue entry and ticket; token and queue
-- entry, the first of them nearest to the head.
-- Reply: see open, then the first end of a lease (ms), 0 if none is held;
-- places before the nearest waiter; capacity; the ends of the renewed leases
-- (ms, 0: lost); for each waiter looked for 1, and 0 if it is neither
-- queued nor granted. The grants in the reply include those of waiters looked
-- for that were granted before.
-- Run twice: the second renews again, and finds the rest done.
--@include open
local waiting = ARGV[4] == '1'
local renewals, leavers, requeued, sought = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
--@include work
local ends, found, places = {}, {}, 0
if not (waiting or exists()) then
  for i = 1, renewals do
    ends[i] = 0
  end
  return {now, 0, '', 0, 0, 0, ends, found}
end
if requeued > 0 then
  taken('') -- a key of a wrong type fails the step here, with nothing changed
end
if waiting or renewals > 0 then
  insist()
end
begin()
if waiting then
  mark()
  redis.call('ZREMRANGEBYSCORE', CLIENTS, '-inf', now - DEAD_KNOWN)
end
local void = tonumber(ARGV[9])
local at = 10
for i = 1, renewals do
  ends[i] = renew(ARGV[at], tonumber(ARGV[at + 1]))
  at = at + 2
end
for _ = 1, leavers do
  leave(ARGV[at], ARGV[at + 1])
  at = at + 2
end
if requeued > 0 and void > late then -- an earlier tend that wants the same may come after this
  late = math.max(late, math.min(void, now + LONGEST))
  outlive(late)
  redis.call('HSET', NAME, 'late', late)
end
for _ = 1, requeued do
  if (void == 0 or now <= void) and redis.call('HEXISTS', LOCKED, ARGV[at]) == 0 and not taken('-' .. ARGV[at]) then
    join(ARGV[at + 1], tonumber(ARGV[at + 2]))
  end
  at = at + 3
end
serve()
for i = 1, sought do
  local token, member = ARGV[at], ARGV[at + 1]
  found[i] = 1
  if redis.call('ZSCORE', QUEUE, member) then
    if i == 1 then
      places = redis.call('ZRANK', QUEUE, member)
    end
  else
    local _, until_, fence = holding(redis.call('HGET', LOCKED, token))
    if until_ then
      write(self, token, fence, until_)
    else
      found[i] = 0
    end
  end
  at = at + 2
end
local grants = settle()
return {now, more, grants, next_end(), places, capacity, ends, found}

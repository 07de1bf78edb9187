-- resize: change the capacity.
--
-- KEYS, ARGV[1..3]: see open. ARGV[4..6]: see heed. ARGV: [7] the capacity, or what
-- to add to it; [8] 1: add, 0: set.
-- Reply: see open, then 1, or 3 if the call is void (see heed), or 0 if the capacity
-- would be out of bounds; the capacity, which is as before then.
-- A permit that is held is never taken away: a capacity below their number is
-- reached as they come back. A semaphore that does not exist is created. Run twice:
-- the second changes nothing.
--@include open
--@include heed
local known = taken(call)
--@include work
begin()
local wanted, outcome = tonumber(ARGV[7]), 1
if ARGV[8] == '1' then
  wanted = capacity + wanted
end
if not known then
  if wanted < 1 or wanted > MOST then
    outcome = 0
  else
    redis.call('HSET', NAME, 'capacity', wanted) -- may be refused for lack of memory
  end
  if outcome == 1 and wanted ~= capacity then
    capacity = wanted
    spare, stale = {}, true
    level()
  end
end
serve()
local grants = settle()
if not known and outcome == 1 then
  note(call, void)
end
return {now, more, grants, outcome, capacity}

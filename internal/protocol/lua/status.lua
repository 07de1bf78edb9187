-- status: how many permits are free, and whether a token holds.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4] a token, or ''.
-- Reply: see open, then permits free; capacity; 1 if the token holds, else 0;
-- for what does not exist its capacity is ARGV[2], all free.
-- It changes nothing but what any step does: reclaim, serve, mend.
--@include open
--@include work
if not exists() then
  return {now, 0, '', tonumber(ARGV[2]), tonumber(ARGV[2]), 0}
end
begin()
serve()
local grants = settle()
return {now, more, grants, math.max(capacity - held, 0), capacity, holding(redis.call('HGET', LOCKED, ARGV[4])) and 1 or 0}

-- reclaim: take back what is held by ended leases.
--
-- KEYS, ARGV[1..3]: see open. No other ARGV.
-- Reply: see open, then how many leases had ended.
-- Run twice: the second finds none.
--@include open
--@include work
if not exists() then
  return {now, 0, '', 0}
end
local reclaimed = begin()
serve()
local grants = settle()
return {now, more, grants, reclaimed}

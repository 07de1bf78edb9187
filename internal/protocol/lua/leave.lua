-- leave: waiters go, whether they are still queued or were granted meanwhile.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4], [5] a token and its queue entry; and so on.
-- Reply: see open.
-- Run twice: the second changes nothing.
--@include open
--@include work
if not exists() then
  return {now, 0, ''}
end
begin()
for i = 4, #ARGV, 2 do
  leave(ARGV[i], ARGV[i + 1])
end
serve()
local grants = settle()
return {now, more, grants}

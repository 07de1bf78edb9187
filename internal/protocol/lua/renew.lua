-- renew: extend the leases of tokens.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4], [5] a token and its lease in ms; and so on.
-- Reply: see open, then the end of each lease (ms), 0 if the token holds nothing.
-- A lease that has ended can't be revived, and none is shortened. Run twice: the
-- lease counts from the later run.
--@include open
--@include work
local ends = {}
if exists() then
  insist()
  begin()
  for i = 4, #ARGV, 2 do
    ends[#ends + 1] = renew(ARGV[i], tonumber(ARGV[i + 1]))
  end
  serve()
  local grants = settle()
  return {now, more, grants, ends}
end
for i = 4, #ARGV, 2 do
  ends[#ends + 1] = 0
end
return {now, 0, '', ends}

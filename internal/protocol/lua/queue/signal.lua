-- signal: add jobs, behind those that are there.
--
-- KEYS, ARGV[1..3]: see open. ARGV[4..6]: see heed. ARGV: [7] ms after which a job
-- ends that is not delivered, 0: never; [8] the content of a job; and so on.
-- Reply: see open, then 1, or 3 if the call is void (see heed); jobs ready now.
-- Run twice: the second changes nothing.
--@include open
--@include heed
local known = taken(call)
--@include work
begin()
if not known then
  local ends = tonumber(ARGV[7])
  if ends > 0 then
    ends = now + ends
    if capacity == 0 or lasting then
      lasting = math.max(lasting or 0, ends)
    end
  elseif lasting then
    lasting, stale = nil, true
  end
  for i = 8, #ARGV do
    local id = string.format('%.0f', next_number())
    redis.call('HSET', JOBS, id, ARGV[i])
    capacity = capacity + 1
    ready(id, '0', string.format('%.0f', ends))
  end
end
serve()
local grants = settle()
if not known then
  note(call, void)
end
return {now, more, grants, 1, capacity - held}

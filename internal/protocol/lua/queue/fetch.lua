-- fetch: hand over the job that a waiting consumer was granted.
--
-- KEYS, ARGV[1..3]: see open. ARGV: [4] token; [5] its lease from now, ms; [6] 2 if
-- the job ends with its lease, 1 if it is delivered again then.
-- Reply: see open, then end of lease (ms), 0 if the token holds nothing; the
-- content; how often it was handed over, this time included; the id of the job.
-- Run twice: the second hands the same over again, and counts it once.
--@include open
--@include work
if not exists() then
  return {now, 0, '', 0, '', 0, 0}
end
insist()
begin()
local ends, content, deliveries, id = fetch(ARGV[4], tonumber(ARGV[5]), ARGV[6])
serve()
local grants = settle()
return {now, more, grants, ends or 0, content or '', deliveries or 0, id or 0}

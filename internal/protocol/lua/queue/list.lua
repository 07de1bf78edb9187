-- list: the jobs that are ready, the oldest first, two elements each: id,
-- deliveries and end, as in AVAILABLE; bytes.
local function list(last)
  local jobs = {}
  for _, member in ipairs(redis.call('ZRANGE', AVAILABLE, 0, last)) do
    jobs[#jobs + 1] = member
    jobs[#jobs + 1] = redis.call('HSTRLEN', JOBS, string.match(member, '^%d+'))
  end
  return jobs
end

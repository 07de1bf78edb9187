-- note: remembers the names of the last calls.

-- note remembers one. A list of a wrong type does not fail the step.
local function note(name)
  local length = tonumber(redis.pcall('LPUSH', RELEASED, name))
  if length and length <= 2 then
    redis.call('PEXPIRE', RELEASED, ttl)
  elseif length and length > 2048 then
    redis.call('LTRIM', RELEASED, 0, 1023)
  end
end

-- list: a permit that is free has nothing to tell.
local function list()
  return {}
end

-- serve: the course of a step.

-- begin makes the state whole and reclaims what has ended. It answers how many
-- leases that were.
local function begin()
  check()
  stale = stale or not plain
  local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, BATCH)
  if #over == BATCH then
    more = 1
  end
  for _, token in ipairs(over) do
    drop(token)
  end
  return #over
end

-- serve gives free permits to the head of the queue, and so on, until the head
-- asks for more than are free: nobody overtakes it. Places of dead processes,
-- and entries that cannot be read, go when they come to the head.
-- Member: token, permits, lease (ms), client id, owner.
local function serve()
  if torn then
    mend()
  end
  for _ = 1, BATCH do
    local member = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    if not member then
      return
    end
    local token, n, window, client, owner = string.match(member, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
    n = tonumber(n)
    if not n or n < 1 or n > most() or not alive(client) or redis.call('HEXISTS', LOCKED, token) == 1 then
      redis.call('ZREM', QUEUE, member)
    elseif not fits(n) then
      return
    else
      redis.call('ZREM', QUEUE, member)
      local ends = now + math.min(CLAIM, tonumber(window))
      local fence = next_number()
      outlive(ends)
      give(token, n, ends, fence, owner)
      write(client, token, string.format('%.0f', fence), ends)
    end
  end
  more = 1
end

-- leave takes a waiter out of the queue or, if it was granted meanwhile,
-- takes its permits in hand.
local function leave(token, member)
  redis.call('ZREM', QUEUE, member)
  ended(token)
  gone(token)
  drop(token, '0')
end

-- settle writes what has changed; refreshes the life of the keys; and posts the
-- grants into the inboxes of their processes, joined with what lies there
-- unread, so that one pop fetches all. It answers the grants of the caller's
-- own process. An inbox of a wrong type does not fail the step: its process
-- learns of its grants when it tends.
local function settle()
  store()
  if stale then
    redis.call('HSET', NAME, 'ttl', ttl, 'fresh', now)
    redis.call('SET', VERSION, FORMAT)
    live()
  end
  for client, grants in pairs(mail) do
    if client ~= self then
      local inbox = NAME .. ':inbox:' .. client
      local unread = redis.pcall('LPOP', inbox)
      if type(unread) == 'string' and #unread < INBOX_LIMIT and string.sub(unread, -1) == '\n' then
        grants = unread .. grants
      end
      redis.pcall('RPUSH', inbox, grants)
      redis.call('PEXPIRE', inbox, ttl)
    end
  end
  return mail[self] or ''
end

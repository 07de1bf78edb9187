-- work: what the steps share when their short cut does not apply: begin(), the
-- step's own changes, serve(), settle(), in this order.
--
-- Invariant after settle: the list holds max(capacity - held, 0) permits; held
-- is the sum over the locked records; every record has a lease and every lease
-- a record.
local CLAIM = 3000          -- ms: the claim window, first lease of a grant from the queue
local BATCH = 500           -- most tokens that one call reclaims, and most it serves
local DEAD_KNOWN = 600000   -- ms: how long a dead process is remembered
local INBOX_LIMIT = 65536   -- bytes: an unread message of that length or more is stale

local spare = {}            -- permits in hand: taken from a holder, not yet given on
local mail = {}             -- client id -> its grants, as in the reply
local more = 0              -- the second element of the reply
local dirty = false         -- held or seq have changed
local stale = false         -- all keys need a new life
local torn = false          -- a hold was ended of which the permits are not known

-- whole answers a number that these scripts may have written, nil for anything else.
local function whole(text, most)
  local n = tonumber(text)
  return n and n >= 0 and n <= (most or 2 ^ 53) and n % 1 == 0 and n or nil
end

-- outlive makes the keys live twice as long as a lease that ends then.
local function outlive(ends)
  if 2 * (ends - now) > (ttl or 0) then
    ttl = 2 * (ends - now)
    stale = true
  end
end

local function next_number()
  seq = math.max(seq + 1, clock)
  dirty = true
  return seq
end

local function push(items)
  for i = 1, #items, 1000 do
    redis.call('RPUSH', AVAILABLE, unpack(items, i, math.min(i + 999, #items)))
  end
end

-- hold writes the record and the lease of a holder that take() has counted.
-- Record: permits, end of lease (ms), fence, since (ms), owner.
local function hold(token, n, ends, fence, owner)
  redis.call('HSET', LOCKED, token, string.format('%.0f %.0f %.0f %.0f ', n, ends, fence, now) .. owner)
  redis.call('ZADD', LEASES, ends, token)
  if held == n then -- both keys are new
    redis.call('PEXPIRE', LOCKED, ttl)
    redis.call('PEXPIRE', LEASES, ttl)
  end
end

-- holding is parse for a record whose lease has not ended, nil for any other.
local function holding(record)
  local n, ends, fence = parse(record)
  if n and ends > now then
    return n, ends, fence
  end
end

-- take moves n free permits out of the hand and the list.
local function take(n)
  held = held + n
  dirty = true
  local inhand = math.min(n, #spare)
  for _ = 1, inhand do
    table.remove(spare)
  end
  if n > inhand then
    redis.call('LPOP', AVAILABLE, n - inhand)
  end
end

-- drop ends the hold of a token, if it has one, and takes its permits in hand. Those
-- of a record that can't be read only mend() can count.
local function drop(token)
  local record = redis.call('HGET', LOCKED, token)
  local leased = redis.call('ZREM', LEASES, token) == 1
  if record then
    redis.call('HDEL', LOCKED, token)
  end
  local n, _, fence = parse(record)
  if n then
    held = held - n
    dirty = true
    for i = 1, math.min(n, capacity - #spare) do
      spare[#spare + 1] = fence .. ':' .. i
    end
  elseif record or leased then
    torn = true
  end
end

-- mend makes the state whole from whatever is left of it: it creates the
-- semaphore, and puts right what an eviction or a foreign hand took or added.
-- It never frees what an unended lease may still protect.
local function mend()
  -- The first write may be refused for lack of memory: then nothing has changed.
  capacity = capacity or tonumber(ARGV[2])
  redis.call('HSET', NAME, 'capacity', capacity)
  seq = math.max(seq or 0, clock - 1)
  local leases, orphans, sum = {}, 0, 0
  local scores = redis.call('ZRANGE', LEASES, 0, -1, 'WITHSCORES')
  for i = 1, #scores, 2 do
    leases[scores[i]] = whole(scores[i + 1], 2 ^ 50) or 0
    orphans = orphans + 1
  end
  local records = redis.call('HGETALL', LOCKED)
  for i = 1, #records, 2 do
    local token = records[i]
    local n, ends, fence = parse(records[i + 1])
    if n then
      sum = sum + n
      seq = math.max(seq, tonumber(fence))
      outlive(ends)
      if leases[token] then
        orphans = orphans - 1
      end
      if leases[token] ~= ends then
        redis.call('ZADD', LEASES, ends, token)
      end
      leases[token] = nil
    else
      redis.call('HDEL', LOCKED, token)
    end
  end
  -- Leases without a record share the permits that nothing else accounts for. Who
  -- had how many is not known: each counts for as many as it may have had.
  local missing = (held or capacity - redis.call('LLEN', AVAILABLE)) - sum
  local share = math.max(missing - orphans + 1, 1)
  local lost = not held or missing > 0
  for token, ends in pairs(leases) do
    if lost then
      sum = sum + share
      outlive(ends)
      hold(token, share, ends, next_number(), '?')
    else
      redis.call('ZREM', LEASES, token)
    end
  end
  held = sum
  local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  seq = math.max(seq, whole(last[2]) or 0)
  local lack = math.max(capacity - held, 0) - redis.call('LLEN', AVAILABLE)
  if lack > 0 then
    local number = string.format('%.0f', next_number())
    local fill = {}
    for i = 1, lack do
      fill[i] = number .. ':' .. i
    end
    push(fill)
  elseif lack < 0 then
    redis.call('LPOP', AVAILABLE, -lack)
  end
  dirty, stale = true, true
end

-- begin makes the state whole and reclaims what has ended. It reads each key
-- before it writes, so that a key of a wrong type fails the step with
-- nothing changed.
local function begin()
  local free = redis.call('LLEN', AVAILABLE)
  local records = redis.call('HLEN', LOCKED)
  local leases = redis.call('ZCARD', LEASES)
  redis.call('ZCARD', QUEUE)
  redis.call('ZCARD', CLIENTS)
  capacity, held, seq, ttl = whole(capacity, MOST), whole(held), whole(seq), whole(ttl)
  local known = version and capacity and held and seq and ttl
  outlive(now + lease)
  if not known or free ~= math.max(capacity - held, 0)
    or records ~= leases or records > held or (records == 0 and held > 0) then
    mend()
  end
  stale = stale or not plain
  local ended = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, BATCH)
  if #ended == BATCH then
    more = 1
  end
  for _, token in ipairs(ended) do
    drop(token)
  end
end

-- alive says whether a waiting process has lately said that it lives. One of
-- which nothing is known (its mark was evicted) has the benefit of the doubt for
-- one claim window.
local function alive(client)
  if client == self then
    return true
  end
  local till = tonumber(redis.call('ZSCORE', CLIENTS, client) or '')
  if not till then
    redis.call('ZADD', CLIENTS, now + CLAIM, client)
    redis.call('PEXPIRE', CLIENTS, ttl)
    return true
  end
  return till > now
end

-- write adds a grant to the mail for a process. fence is a text.
local function write(client, token, fence, ends)
  mail[client] = (mail[client] or '') .. token .. ' ' .. fence .. ' ' .. string.format('%.0f', ends) .. '\n'
end

-- serve gives free permits to the head of the queue, and so on, until the head
-- asks for more than are free: nobody overtakes it. Places of dead processes,
-- and entries that cannot be read, go when they come to the head.
-- Member: token, permits, lease (ms), client id, owner.
local function serve()
  if torn then
    spare, torn = {}, false
    mend()
  end
  for _ = 1, BATCH do
    local member = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    if not member then
      return
    end
    local token, n, window, client, owner = string.match(member, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
    n = tonumber(n)
    if not n or n < 1 or n > capacity or not alive(client) or redis.call('HEXISTS', LOCKED, token) == 1 then
      redis.call('ZREM', QUEUE, member)
    elseif held + n > capacity then
      return
    else
      redis.call('ZREM', QUEUE, member)
      local ends = now + math.min(CLAIM, tonumber(window))
      local fence = next_number()
      take(n)
      hold(token, n, ends, fence, owner)
      write(client, token, string.format('%.0f', fence), ends)
    end
  end
  more = 1
end

-- mark notes that the caller's process lives.
local function mark()
  if redis.call('ZADD', CLIENTS, now + CLAIM, self) == 1 then
    redis.call('PEXPIRE', CLIENTS, ttl)
  end
end

-- join queues a waiter of the caller's process.
local function join(member, ticket)
  if ticket > seq then
    seq = ticket
    dirty = true
  end
  redis.call('ZADD', QUEUE, ticket, member)
  redis.call('PEXPIRE', QUEUE, ttl)
  mark()
end

-- leave takes a waiter out of the queue or, if it was granted meanwhile,
-- takes its permits in hand.
local function leave(token, member)
  redis.call('ZREM', QUEUE, member)
  drop(token)
end

-- renew extends a lease that has not ended, and never shortens one. It answers
-- the end of the lease, 0 if the token holds nothing.
local function renew(token, window)
  local record = redis.call('HGET', LOCKED, token)
  local _, ends = holding(record)
  if not ends then
    return 0
  end
  if now + window > ends then
    ends = now + window
    outlive(ends)
    redis.call('HSET', LOCKED, token, (string.gsub(record, '^(%d+ )%d+', '%1' .. string.format('%.0f', ends))))
    redis.call('ZADD', LEASES, ends, token)
  end
  return ends
end

-- settle returns the permits in hand to the list, less what a lowered capacity
-- has no place for; writes the name; refreshes the life of the keys; and posts
-- the grants into the inboxes of their processes, joined with what lies there
-- unread, so that one pop fetches all. It answers the grants of the caller's
-- own process. An inbox of a wrong type does not fail the step: its process
-- learns of its grants when it tends.
local function settle()
  if #spare > 0 then
    for _ = 1, held + #spare - capacity do
      table.remove(spare)
    end
    push(spare)
    redis.call('PEXPIRE', AVAILABLE, ttl)
  end
  if dirty then
    redis.call('HSET', NAME, 'held', string.format('%.0f', held), 'seq', string.format('%.0f', seq))
  end
  if stale then
    redis.call('HSET', NAME, 'ttl', ttl, 'fresh', now)
    redis.call('SET', VERSION, '1')
    for i = 1, #KEYS do
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
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

-- next_end answers when the first lease ends (server ms), 0 if none is held.
local function next_end()
  return tonumber(redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]) or 0
end

-- exists says whether anything of the semaphore is left.
local function exists()
  return capacity or redis.call('EXISTS', LOCKED, LEASES, QUEUE) > 0
end

-- line: what the steps of both kinds share: the numbers, the records, the processes,
-- and the mail.
local CLAIM = 3000          -- ms: the claim window, first lease of a grant from the queue
local BATCH = 500           -- most tokens that one call reclaims, and most it serves
local DEAD_KNOWN = 600000   -- ms: how long a dead process is remembered
local INBOX_LIMIT = 65536   -- bytes: an unread message of that length or more is stale

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

-- insist lets the step go on though the server's memory is full: Redis refuses a script
-- for that only before its first write. This one changes nothing. It is for steps
-- that keep what somebody has, a lease or a place, and so hardly need memory: those who
-- have it would lose it for want of an extension.
local function insist()
  redis.call('ZREM', LEASES, '')
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

-- hold writes the record and the lease of a holder.
-- Record: permits, end of lease (ms), fence, since (ms), owner.
local function hold(token, n, ends, fence, owner)
  redis.call('HSET', LOCKED, token, string.format('%.0f %.0f %.0f %.0f ', n, ends, fence, now) .. owner)
  redis.call('ZADD', LEASES, ends, token)
end

-- holding is parse for a record whose lease has not ended, nil for any other.
local function holding(record)
  local n, ends, fence = parse(record)
  if n and ends > now then
    return n, ends, fence
  end
end

-- ended notes that the hold of a token has ended, while a copy of its acquire may
-- come.
local function ended(token)
  if now <= late then
    note(token, late)
  end
end

-- gone notes that a token was given back, or that its waiter has left: it is not to be
-- queued again, while a tend that wants that may come.
local function gone(token)
  if now <= late then
    note('-' .. token, late)
  end
end

-- created notes, of what is made anew, that copies may come of what was sent before.
local function created()
  if redis.call('EXISTS', CALLS) == 1 then
    late = math.max(late, kept())
    redis.call('HSET', NAME, 'late', late)
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

-- next_end answers when the first lease ends (server ms), 0 if none is held.
local function next_end()
  return tonumber(redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]) or 0
end

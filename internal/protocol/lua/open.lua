-- open: what every step reads before it writes anything. It writes nothing.
--
-- A step serves semaphores and job queues alike, for what it says of permits holds
-- of jobs: one that is ready is free, one that a consumer works on is held. What
-- differs lies in the folders semaphore/ and queue/, under the same names.
--
-- KEYS: the fixed keys, in the order below; of a queue, two more.
-- ARGV of every step: [1] client id of the caller's process; [2] the capacity
-- with which a missing semaphore is created or mended (of a queue: 0); [3] the
-- caller's lease, ms.
-- Reply of every step: server time (ms); 1 if a batch was full and another call
-- is due at once, else 0; the grants for the caller's process ('' if none), one
-- a line: token, fence, end of lease (ms); then what the step says.
local NAME, VERSION, AVAILABLE, LOCKED, LEASES, QUEUE, CLIENTS, RELEASED, CALLS =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local self, lease = ARGV[1], tonumber(ARGV[3])
--@include kind

local version = redis.call('GET', VERSION)
if version and version ~= FORMAT then
  return redis.error_reply('REDSEMVERSION ' .. version)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) -- server time, ms
local clock = time[1] * 1000000 + time[2]               -- server time, µs

local KEEP = 10000     -- ms: how long the name of a call is kept, at least
local LONGEST = 120000 -- ms: no call is under way for so long
local FOREIGN = 600000 -- ms: nor was it written by us that one is for so long

local name = redis.call('HMGET', NAME, 'capacity', 'held', 'seq', 'ttl', 'fresh', 'late')
local capacity = tonumber(name[1]) -- permits in all; nil: the semaphore does not exist
local held = tonumber(name[2])     -- permits that are held
local seq = tonumber(name[3])      -- the last sequence number (ticket or fence)
local ttl = tonumber(name[4])      -- life of the keys in ms: twice the longest lease
local fresh = tonumber(name[5])    -- when the keys were last given that life, ms
local late = tonumber(name[6]) or 0 -- until then a call may come that was repeated since, ms
if not (late <= now + FOREIGN) then
  late = 0
end
--@include count

-- plain: the state needs no mending, and the keys no new life, as far as this
-- reading shows; the short cuts of acquire and release rest on it.
local plain = version and capacity and held and seq and ttl and fresh
if plain then
  local sum = capacity + held + seq + ttl + fresh -- a whole number if all are
  plain = sum % 1 == 0 and sum < 2 ^ 53 and capacity <= MOST
    and now >= fresh and now - fresh <= ttl / 8
end

-- parse reads a record of a holder: permits, end of lease (ms), fence (as text).
-- It answers nil for one that no step can have written.
local function parse(record)
  local n, ends, fence = string.match(record or '', '^(%d+) (%d+) (%d+) %d+ ')
  n, ends = tonumber(n), tonumber(ends)
  if n and n <= MOST and ends <= 2 ^ 50 and tonumber(fence) <= 2 ^ 53 then
    return n, ends, fence
  end
end

-- taken says whether a call, or a token, is among those of which copies may come.
local function taken(name)
  return redis.call('ZSCORE', CALLS, name)
end

-- kept says until when the last of them is kept (server ms).
local function kept()
  local last = redis.pcall('ZREVRANGE', CALLS, 0, 0, 'WITHSCORES')
  return math.floor(math.min(math.max(tonumber(last[2]) or 0, now + KEEP), now + FOREIGN))
end

-- note keeps a name until then, or for longer. A key of a wrong type does not fail
-- the step.
local function note(name, till)
  redis.pcall('ZADD', CALLS, math.max(till, now + KEEP), name)
  redis.pcall('ZREMRANGEBYSCORE', CALLS, '-inf', now)
  redis.pcall('PEXPIRE', CALLS, math.max(ttl or 0, kept() - now))
end

-- work: what the steps share when their short cut does not apply: begin(), the
-- step's own changes, serve(), settle(), in this order.
--
-- Invariant after settle: the list holds max(capacity - held, 0) permits; held
-- is the sum over the locked records; every record has a lease and every lease
-- a record.
--@include line
local spare = {}            -- permits in hand: taken from a holder, not yet given on

local function push(items)
  for i = 1, #items, 1000 do
    redis.call('RPUSH', AVAILABLE, unpack(items, i, math.min(i + 999, #items)))
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
    redis.call('LTRIM', AVAILABLE, n - inhand, -1)
  end
end

-- most is the most that anybody can get.
local function most()
  return capacity
end

local function fits(n)
  return held + n <= capacity
end

-- give gives n free permits to a token.
local function give(token, n, ends, fence, owner)
  take(n)
  hold(token, n, ends, fence, owner)
  if held == n then -- both keys are new
    redis.call('PEXPIRE', LOCKED, ttl)
    redis.call('PEXPIRE', LEASES, ttl)
  end
end

-- hand: the reply of a granted acquire is complete.
local function hand()
end

-- drop ends the hold of a token, if it has one, and takes its permits in hand. Those
-- of a record that can't be read only mend() can count.
local function drop(token)
  local record = redis.call('HGET', LOCKED, token)
  local leased = redis.call('ZREM', LEASES, token) == 1
  if record then
    redis.call('HDEL', LOCKED, token)
  end
  if record or leased then
    ended(token)
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

-- level makes the list as long as the numbers say.
local function level()
  local lack = math.max(capacity - held, 0) - redis.call('LLEN', AVAILABLE)
  if lack > 0 then
    local number = string.format('%.0f', next_number())
    local fill = {}
    for i = 1, lack do
      fill[i] = number .. ':' .. i
    end
    push(fill)
  elseif lack < 0 then
    redis.call('LTRIM', AVAILABLE, -lack, -1)
  end
end

-- mend makes the state whole from whatever is left of it: it creates the
-- semaphore, and puts right what an eviction or a foreign hand took or added.
-- It never frees what an unended lease may still protect.
local function mend()
  spare, torn = {}, false
  -- The first write may be refused for lack of memory: then nothing has changed.
  capacity = capacity or tonumber(ARGV[2])
  redis.call('HSET', NAME, 'capacity', capacity)
  if not seq then
    created()
  end
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
  for i = 1, #scores, 2 do
    local token, ends = scores[i], leases[scores[i]]
    if ends and lost then
      sum = sum + share
      outlive(ends)
      hold(token, share, ends, next_number(), '?')
    elseif ends then
      redis.call('ZREM', LEASES, token)
    end
  end
  held = sum
  local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  seq = math.max(seq, whole(last[2]) or 0)
  level()
  dirty, stale = true, true
end

-- check makes the state whole, if it is not. It reads each key
-- before it writes, so that a key of a wrong type fails the step with nothing
-- changed.
local function check()
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
end

-- store returns the permits in hand to the list, less what a lowered capacity has
-- no place for, and writes the name.
local function store()
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
end

-- live gives the keys their life.
local function live()
  for _, key in ipairs({NAME, VERSION, AVAILABLE, LOCKED, LEASES, QUEUE, CLIENTS}) do
    redis.call('PEXPIRE', key, ttl)
  end
  redis.call('PEXPIRE', RELEASED, ttl + KEEP)
  redis.call('PEXPIRE', CALLS, math.max(ttl, kept() - now))
end

-- exists says whether anything of the semaphore is left.
local function exists()
  return capacity or redis.call('EXISTS', LOCKED, LEASES, QUEUE) > 0
end

--@include serve

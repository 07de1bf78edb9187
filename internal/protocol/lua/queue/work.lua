-- work: what the steps share: begin(), the step's own changes, serve(), settle(),
-- in this order.
--
-- A job is a permit with content. JOBS: id -> content. AVAILABLE, sorted by id, has
-- a member for each job that is ready: id, deliveries, end. A job that is held
-- has them in the record of its holder, in front of the owner: id, deliveries,
-- how, end. Ids are sequence numbers, so the oldest job is the first, be it new
-- or given back. how: 0 the content was not handed over yet; 1 it was, and the job
-- is delivered again if its lease ends; 2 it was, and the job ends with its lease.
-- end: server time (ms) at which a job that is not held ends, 0: never; those
-- that are ready and have one are in EXPIRIES. There too, with 0, are those that end
-- with their lease, lest they be taken for lost if their record is.
--
-- Invariant after settle: every job is either ready or held; every record has a
-- lease and every lease a record.
--@include line

-- most is the most that anybody can get.
local function most()
  return 1
end

-- job reads what a record says of its job.
local function job(record)
  return string.match(record, '^%d+ %d+ %d+ %d+ (%d+) (%d+) ([012]) (%d+) ')
end

-- ready puts a job where it is free.
local function ready(id, deliveries, ends)
  redis.call('ZADD', AVAILABLE, id, table.concat({id, deliveries, ends}, ' '))
  if ends ~= '0' then
    redis.call('ZADD', EXPIRIES, ends, id)
  end
  dirty = true
end

-- forget ends a job.
local function forget(id)
  redis.call('HDEL', JOBS, id)
  capacity = capacity - 1
end

-- drop ends the hold of a token, if it has one. how: 1 its job is done; 0 it goes
-- back; nil: the lease has ended.
local function drop(token, how)
  local record = redis.call('HGET', LOCKED, token)
  redis.call('ZREM', LEASES, token)
  if not record then
    return
  end
  redis.call('HDEL', LOCKED, token)
  ended(token)
  held = held - 1
  local id, deliveries, handed, ends = job(record)
  if handed == '2' then
    redis.call('ZREM', EXPIRIES, id)
  end
  if not id then
    torn = true
  elseif how == '1' or (not how and handed == '2') or (ends ~= '0' and tonumber(ends) <= now) then
    forget(id)
  else
    ready(id, deliveries, ends)
  end
end

-- mend makes the state whole from whatever is left of it, after an eviction or the
-- work of a foreign hand. Jobs that are neither ready nor held are ready again.
local function mend()
  if not seq then
    created()
  end
  seq = math.max(seq or 0, clock - 1)
  local lost = {} -- ids of jobs that nothing accounts for, so far
  for _, id in ipairs(redis.call('HKEYS', JOBS)) do
    if whole(id) and string.match(id, '^[1-9]%d*$') then
      lost[id] = true
      seq = math.max(seq, tonumber(id))
    else
      redis.call('HDEL', JOBS, id)
    end
  end
  local records = redis.call('HGETALL', LOCKED)
  for i = 1, #records, 2 do
    local token, record = records[i], records[i + 1]
    local n, ends, fence = parse(record)
    local id = n == 1 and job(record)
    if id and lost[id] then
      lost[id] = nil
      seq = math.max(seq, tonumber(fence))
      redis.call('ZADD', LEASES, ends, token)
    else
      redis.call('HDEL', LOCKED, token)
    end
  end
  for _, token in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
    if redis.call('HEXISTS', LOCKED, token) == 0 then
      redis.call('ZREM', LEASES, token)
    end
  end
  local free = redis.call('ZRANGE', AVAILABLE, 0, -1, 'WITHSCORES')
  for i = 1, #free, 2 do
    local id = string.match(free[i], '^(%d+) %d+ %d+$')
    if id and lost[id] and free[i + 1] == id then
      lost[id] = nil
    else
      redis.call('ZREM', AVAILABLE, free[i])
    end
  end
  for id in pairs(lost) do
    local ends = whole(redis.call('ZSCORE', EXPIRIES, id), 2 ^ 50)
    if ends == 0 then
      redis.call('HDEL', JOBS, id)
      redis.call('ZREM', EXPIRIES, id)
    else
      ready(id, '0', string.format('%.0f', ends or 0))
    end
  end
  local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  seq = math.max(seq, whole(last[2]) or 0)
  capacity, held = redis.call('HLEN', JOBS), redis.call('HLEN', LOCKED)
  torn, dirty, stale = false, true, true
end

-- fits says whether a job is ready. It ends those whose time has come.
local function fits()
  for _ = 1, BATCH do
    if held >= capacity then
      return false
    end
    local first = redis.call('ZRANGE', AVAILABLE, 0, 0)[1] or ''
    local id, ends = string.match(first, '^(%d+) %d+ (%d+)$')
    if not id or redis.call('HEXISTS', JOBS, id) == 0 then
      mend()
      return held < capacity
    elseif ends == '0' or tonumber(ends) > now then
      return true
    end
    redis.call('ZREM', AVAILABLE, first)
    redis.call('ZREM', EXPIRIES, id)
    forget(id)
  end
  more = 1
  return false
end

-- measure finds out whether all jobs have an end, and when the last of them ends. That of
-- one that is held is not looked for.
local function measure()
  if capacity > 0 and held == 0 and not lasting and redis.call('ZCARD', EXPIRIES) == capacity then
    lasting = whole(redis.call('ZREVRANGE', EXPIRIES, 0, 0, 'WITHSCORES')[2], 2 ^ 50)
    dirty = true
  end
end

-- give gives the first job to a token.
local function give(token, n, ends, fence, owner)
  measure()
  local first = redis.call('ZPOPMIN', AVAILABLE)[1]
  local id, deliveries, till = string.match(first, '^(%d+) (%d+) (%d+)$')
  redis.call('ZREM', EXPIRIES, id)
  held = held + 1
  hold(token, 1, ends, fence, table.concat({id, deliveries, '0', till, owner}, ' '))
end

-- fetch hands the job of a token over: it answers the end of the lease, the content,
-- how often it was handed over, and the id; nothing if the token holds none. how:
-- see above.
local function fetch(token, window, how)
  local ends = renew(token, window)
  if ends == 0 then
    return
  end
  local record = redis.call('HGET', LOCKED, token)
  local id, deliveries, handed = job(record)
  local content = id and redis.call('HGET', JOBS, id)
  if not content then
    mend()
    return
  end
  if handed == '0' then
    deliveries = string.format('%.0f', deliveries + 1)
    redis.call('HSET', LOCKED, token, (string.gsub(record, '^(%d+ %d+ %d+ %d+ %d+) %d+ 0',
      '%1 ' .. deliveries .. ' ' .. how)))
    if how == '2' then
      redis.call('ZADD', EXPIRIES, 0, id)
      dirty = true
    end
  end
  return ends, content, tonumber(deliveries), tonumber(id)
end

-- hand completes the reply of a granted acquire: the lease is a full one, and three
-- elements more are the content of the job, how often it was handed over, and its
-- id.
-- ARGV[10]: 2 if the job ends with its lease, else 1.
local function hand(token, reply)
  local ends, content, deliveries, id = fetch(token, lease, ARGV[10])
  if ends then
    reply[5], reply[9], reply[10], reply[11] = ends, content, deliveries, id
  else
    reply[4] = 3 -- a job was lost: ask again
  end
end

-- check makes the state whole, if it is not, and ends jobs whose time has come. It
-- reads each key before it writes, so that a key of a wrong type fails the step
-- with nothing changed.
local function check()
  local free = redis.call('ZCARD', AVAILABLE)
  local leases = redis.call('ZCARD', LEASES)
  redis.call('ZCARD', QUEUE)
  redis.call('ZCARD', CLIENTS)
  local over = redis.call('ZRANGEBYSCORE', EXPIRIES, '(0', now, 'LIMIT', 0, BATCH)
  seq, ttl, lasting = whole(seq), whole(ttl), whole(lasting, 2 ^ 50)
  outlive(now + lease)
  if not (version and seq and ttl) or free + held ~= capacity or leases ~= held then
    mend()
  end
  if #over == BATCH then
    more = 1
  end
  for _, id in ipairs(over) do
    redis.call('ZREM', EXPIRIES, id)
    if whole(id) and redis.call('ZREMRANGEBYSCORE', AVAILABLE, id, id) > 0 then
      forget(id)
    end
  end
end

-- store writes the name.
local function store()
  if dirty then
    redis.call('HSET', NAME, 'seq', string.format('%.0f', seq))
  end
  measure()
  stale = stale or had ~= (capacity > 0) or (lasting and dirty)
end

-- live gives the keys their life: as long as there are jobs, those that make them up
-- live until the last of them ends.
local function live()
  if lasting and capacity > 0 then
    redis.call('HSET', NAME, 'lasting', lasting)
  else
    redis.call('HDEL', NAME, 'lasting')
  end
  for _, key in ipairs({NAME, VERSION, AVAILABLE, LOCKED, LEASES, JOBS, EXPIRIES}) do
    if capacity > 0 and not lasting then
      redis.call('PERSIST', key)
    else
      redis.call('PEXPIRE', key, math.max(ttl, (lasting or 0) - now))
    end
  end
  redis.call('PEXPIRE', QUEUE, ttl)
  redis.call('PEXPIRE', CLIENTS, ttl)
  redis.call('PEXPIRE', RELEASED, ttl + KEEP)
  redis.call('PEXPIRE', CALLS, math.max(ttl, kept() - now))
end

-- exists says whether anything of the queue is left.
local function exists()
  return capacity > 0 or redis.call('EXISTS', NAME, LOCKED, LEASES, QUEUE) > 0
end

--@include serve

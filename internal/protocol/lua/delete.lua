-- delete: remove the semaphore, whoever holds; of a queue, all its jobs.
--
-- KEYS, ARGV[1..3]: see open. ARGV[4..6]: see heed.
-- Reply: see open, then 1, or 3 if the call is void (see heed).
-- Holders find that they hold nothing. Waiters are not stranded: their places are
-- left, and an empty message wakes their processes, who create the semaphore again
-- with their next tend, and go on in their order. Run twice: the second changes
-- nothing; what is needed to know that is kept for as long as it may come.
--@include open
--@include heed
if taken(call) then
  return {now, 0, '', 1}
end
redis.call(COUNT, AVAILABLE) -- what is of a wrong type is not ours
redis.call('HLEN', LOCKED)
redis.call('ZCARD', LEASES)
redis.call('ZCARD', QUEUE)
redis.call('LLEN', RELEASED)
local clients = redis.call('ZREVRANGE', CLIENTS, 0, 999, 'WITHSCORES')
local living = clients[1] and tonumber(clients[2]) > now
local tokens = now <= late and redis.call('ZRANGE', LEASES, 0, 9999) or {}
for _, key in ipairs(KEYS) do
  if key ~= CALLS and not (living and (key == QUEUE or key == CLIENTS)) then
    redis.call('UNLINK', key)
  end
end
ttl = nil -- nothing is kept for longer than a call's name
note(call, void)
for _, token in ipairs(tokens) do
  note(token, late)
end
for i = 1, #clients, 2 do
  local inbox = NAME .. ':inbox:' .. clients[i]
  redis.call('UNLINK', inbox)
  if tonumber(clients[i + 1]) > now then
    redis.call('RPUSH', inbox, '\n')
    redis.call('PEXPIRE', inbox, 10000)
  end
end
return {now, 0, '', 1}

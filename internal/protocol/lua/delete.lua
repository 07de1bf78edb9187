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
if taken() then
  return {now, 0, '', 1}
end
redis.call(COUNT, AVAILABLE) -- what is of a wrong type is not ours
redis.call('HLEN', LOCKED)
redis.call('ZCARD', LEASES)
redis.call('ZCARD', QUEUE)
local clients = redis.call('ZRANGEBYSCORE', CLIENTS, '(' .. now, '+inf', 'LIMIT', 0, 1000)
for _, key in ipairs(KEYS) do
  if key ~= RELEASED and (#clients == 0 or (key ~= QUEUE and key ~= CLIENTS)) then
    redis.call('UNLINK', key)
  end
end
redis.call('LPUSH', RELEASED, call)
redis.call('PEXPIRE', RELEASED, 10000)
for _, client in ipairs(clients) do
  local inbox = NAME .. ':inbox:' .. client
  redis.call('UNLINK', inbox)
  redis.call('RPUSH', inbox, '\n')
  redis.call('PEXPIRE', inbox, 10000)
end
return {now, 0, '', 1}

-- short_release: what a release is most of the time.
--
-- The short cut: nothing to mend or refresh, one permit, and nobody waits. Its
-- first write is the only one that can fail, and needs no memory.
if plain and n == 1 and held <= capacity and redis.call('ZCARD', QUEUE) == 0 then
  redis.call('ZREM', LEASES, token)
  redis.call('HDEL', LOCKED, token)
  redis.call('HSET', NAME, 'held', held - 1)
  if redis.pcall('RPUSH', AVAILABLE, fence .. ':1') == 1 then
    redis.call('PEXPIRE', AVAILABLE, ttl)
  end
  if now <= late then
    note(token, late)
    note('-' .. token, late) -- see gone
  end
  remember()
  return {now, 0, '', 1, capacity - held + 1}
end

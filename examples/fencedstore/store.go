package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// ErrOldFence says that a newer holder has written already.
var ErrOldFence = errors.New("older fence")

// Store keeps one value in a Redis hash, with the fence under which it was written.
type Store struct {
	pool *redis.Pool
	key  string
}

// write compares and writes in one step. Fences are below 2^53, so Lua's numbers hold
// them exactly. The same fence may write again: it is the same holder.
var write = redis.NewScript(1, `
local newest = redis.call('HGET', KEYS[1], 'fence') or '0'
if tonumber(ARGV[1]) >= tonumber(newest) then
  redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
  newest = ARGV[1]
end
return newest
`)

// Write stores a value in the name of the holder with that fence. ErrOldFence if a
// later holder has written before; nothing is changed then.
func (s *Store) Write(ctx context.Context, fence int64, value string) error {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	newest, err := redis.Int64(write.DoContext(ctx, conn, s.key, fence, value))
	if err != nil {
		return err
	}
	if fence < newest {
		return fmt.Errorf("store: %w: %d, after %d has written", ErrOldFence, fence, newest)
	}
	return nil
}

// Read gives the value.
func (s *Store) Read(ctx context.Context) (string, error) {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return redis.String(redis.DoContext(conn, ctx, "HGET", s.key, "value"))
}

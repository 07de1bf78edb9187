package redigoadapter_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/adaptertest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract runs with every kind of pool that makes a difference.
func TestContract(t *testing.T) {
	for name, configure := range map[string]func(pool *redis.Pool, addr string){
		"DefaultPool": func(*redis.Pool, string) {},
		"OneConnectionWaiting": func(pool *redis.Pool, _ string) {
			pool.MaxActive, pool.Wait = 1, true
		},
		"OneConnectionNotWaiting": func(pool *redis.Pool, _ string) {
			pool.MaxActive, pool.Wait = 1, false
		},
		"ShortReadTimeout": func(pool *redis.Pool, addr string) {
			pool.Dial = func() (redis.Conn, error) {
				return redis.Dial("tcp", addr, redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second))
			}
		},
		"DialContext": func(pool *redis.Pool, addr string) {
			pool.Dial = nil
			pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			adaptertest.Run(t, server.Addr, func(t *testing.T, addr string) redisadapter.Redis {
				pool := redistest.Pool(t, addr, 0)
				configure(pool, addr)
				return redigoadapter.New(pool)
			})
		})
	}
}

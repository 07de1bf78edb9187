// Package exampleredis gives the examples their Redis: the one of REDIS_URL, or one
// that runs inside the example. A program of your own has its pool already, and needs
// nothing of this.
package exampleredis

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// Main runs an example until it ends, or until Ctrl-C.
func Main(run func(ctx context.Context, out io.Writer, url string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("REDIS_URL"))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// Redis is the Redis of an example. It is used by one goroutine.
type Redis struct {
	URL string

	pools    []*redis.Pool
	unique   string               // in the name of every key
	embedded *miniredis.Miniredis // or nil
}

// Open uses the Redis at a URL, or starts one in this process if that is empty.
func Open(url string) (*Redis, error) {
	r := &Redis{URL: url, unique: uuid.NewString()}
	if url == "" {
		var err error
		if r.embedded, err = miniredis.Run(); err != nil {
			return nil, err
		}
		r.URL = "redis://" + r.embedded.Addr()
	}
	return r, nil
}

// Key makes a key that nobody else has; it is deleted by Close, and so is what
// redsem keeps for it.
func (r *Redis) Key(name string) string { return "redsem-" + name + ":" + r.unique }

// Pool makes a pool of its own, until Close.
func (r *Redis) Pool() *redis.Pool {
	pool := NewPool(r.URL)
	r.pools = append(r.pools, pool)
	return pool
}

// Client makes a client with a pool of its own, as each process has one.
func (r *Redis) Client() redisadapter.Redis { return redigoadapter.New(r.Pool()) }

// Close leaves nothing behind in a Redis that is not ours.
func (r *Redis) Close() {
	for _, pool := range r.pools {
		pool.Close()
	}
	if r.embedded != nil {
		r.embedded.Close()
		return
	}
	if err := r.tidy(); err != nil {
		log.Print("keys may be left in Redis: ", err)
	}
}

// tidy looks through all keys rather than to know what redsem calls its own.
func (r *Redis) tidy() error {
	pool := NewPool(r.URL)
	defer pool.Close()
	conn := pool.Get()
	defer conn.Close()
	for cursor := "0"; ; {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", "*"+r.unique+"*", "COUNT", 1000))
		if err != nil {
			return err
		}
		var keys []any
		if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
			return err
		}
		if len(keys) > 0 {
			if _, err := conn.Do("DEL", keys...); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

// NewPool makes a pool of connections to the Redis at a URL.
func NewPool(url string) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 8,
		Dial: func() (redis.Conn, error) {
			return redis.DialURL(url, redis.DialConnectTimeout(5*time.Second))
		},
	}
}

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// server is the Redis of a demo, and the semaphore in it.
type server struct {
	url       string
	name      string // for people
	key       string
	settings  semaphore.Settings
	semaphore *semaphore.Semaphore

	pool     *redis.Pool
	embedded *miniredis.Miniredis // or nil
}

// openServer uses the Redis at a URL or, if there is none, one of its own in this
// process.
func openServer(ctx context.Context, address string, settings semaphore.Settings) (*server, error) {
	s := &server{url: address, key: "redsem-demo:" + rand.Text(), settings: settings}
	if address == "" {
		var err error
		if s.embedded, err = miniredis.Run(); err != nil {
			return nil, err
		}
		s.url = "redis://" + s.embedded.Addr()
		s.name = "embedded, at " + s.embedded.Addr()
	} else if parsed, err := url.Parse(address); err != nil {
		return nil, fmt.Errorf("REDIS_URL is not a URL") // it may hold a password
	} else {
		s.name = "yours, at " + parsed.Host
	}
	s.pool = newPool(s.url)
	var err error
	if s.semaphore, err = semaphore.New(s.key, redigoadapter.New(s.pool), nil, settings); err != nil {
		s.shut()
		return nil, err
	}
	if err := s.ping(ctx); err != nil {
		s.shut()
		return nil, fmt.Errorf("the Redis that is %s: %w", s.name, err)
	}
	return s, nil
}

func (s *server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = redis.DoContext(conn, ctx, "PING")
	return err
}

// close deletes the semaphore, when no worker is left that could use it, and lets
// go of the Redis. What is left in it goes by itself after some seconds.
func (s *server) close() error {
	defer s.shut()
	if s.embedded != nil {
		return nil // nothing of it is left
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.semaphore.Delete(ctx)
}

func (s *server) shut() {
	s.pool.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
}

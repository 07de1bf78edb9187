package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// idle is how long connections without work are kept.
const idle = 500 * time.Millisecond

// node is a client of this process, as another machine would be: a pool, connections,
// and thereby inboxes and leases of its own, behind a proxy of its own.
type node struct {
	*load
	proxy *faultproxy.Proxy
	pool  *redis.Pool
}

func newNode(ctx context.Context, server string, j *judge) (*node, error) {
	proxy, err := faultproxy.New(server)
	if err != nil {
		return nil, err
	}
	pool := redistest.NewPool(proxy.Addr(), 0)
	pool.IdleTimeout = idle
	source := j.source(false)
	l, err := newLoad(ctx, source, redigoadapter.New(pool), fmt.Sprint("node-", source), j.take)
	if err != nil {
		proxy.Close()
		return nil, err
	}
	return &node{load: l, proxy: proxy, pool: pool}, nil
}

// trim closes the connections that have been without work.
func (n *node) trim() { n.pool.Get().Close() }

package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// candidate runs for leader.
type candidate struct {
	name  string
	pool  *redis.Pool
	terms chan<- *term // what it is elected for
	say   func(text string, args ...any)
}

// term is a time in office.
type term struct {
	leader *candidate
	fence  int64
	permit *semaphore.Permit
	resign context.CancelFunc
	ended  chan struct{} // closed when the leader has stopped
}

// campaign leads whenever it is this candidate's turn, until ctx ends.
func (c *candidate) campaign(ctx context.Context, key string) error {
	office, err := semaphore.New(key, redigoadapter.New(c.pool), nil, semaphore.Settings{
		Expiration: 2 * time.Second, // so long after a leader died, another takes over
		AutoRenew:  true,            // as long as it lives
		Owner:      c.name,
	})
	if err != nil {
		return err
	}
	for {
		permit, err := office.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := c.serve(ctx, permit); err != nil {
			return err
		}
	}
}

// serve is one term.
func (c *candidate) serve(ctx context.Context, permit *semaphore.Permit) error {
	inOffice, resign := context.WithCancel(permit.Context())
	defer resign()
	defer context.AfterFunc(ctx, resign)() // the permit's context does not end with ctx
	t := &term{c, permit.Fence(), permit, resign, make(chan struct{})}
	defer close(t.ended)
	c.say("%-6s leads, with fence %d", c.name, t.fence)
	select {
	case c.terms <- t:
	case <-inOffice.Done():
	}

	shifts := work(inOffice)

	if cause := context.Cause(permit.Context()); errors.Is(cause, semaphore.ErrLost) {
		c.say("%-6s stops after %d shifts: %v", c.name, shifts, cause)
		return nil // there is nothing to release
	}
	c.say("%-6s resigns after %d shifts", c.name, shifts)
	_, err := permit.Release(ctx)
	if errors.Is(err, semaphore.ErrLost) {
		return nil
	}
	return err
}

// work is what only one may do at a time. What it writes elsewhere it would send with the
// fence.
func work(ctx context.Context) (shifts int) {
	for ticker := time.NewTicker(100 * time.Millisecond); ; shifts++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return shifts
		}
	}
}

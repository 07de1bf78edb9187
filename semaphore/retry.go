package semaphore

import (
	"context"
	"errors"
	"net"
	"time"
)

// attemptTimeout bounds each attempt to send a step.
const attemptTimeout = 3 * time.Second

// pauses lie between the attempts to send a step. The first is short: a
// connection that went stale in the pool is replaced at once.
var pauses = []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// attempt sends a step until it is answered, a few times at most and until ctx
// ends. All steps may be sent again.
func attempt(ctx context.Context, step func(context.Context) error) error {
	for _, pause := range pauses {
		err := attemptOnce(ctx, step)
		if err == nil || permanent(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
	return attemptOnce(ctx, step)
}

func attemptOnce(ctx context.Context, step func(context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return step(once)
}

// neverSent says that an attempt failed before anything could reach a server.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

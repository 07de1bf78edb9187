package semaphore

import (
	"context"
	"errors"
	"net"
	"time"
)

const (
	// attemptTimeout bounds each attempt to send a step.
	attemptTimeout = 3 * time.Second

	// askPatience is how long a step that asks for something is sent again
	// when the connection fails: long enough for a stale connection in the pool,
	// short enough to learn soon that there is no Redis.
	askPatience = time.Second

	// givePatience is how long a step that gives something back is sent again:
	// the others would have to wait for the end of the lease otherwise.
	givePatience = 6 * time.Second

	firstPause   = 2 * time.Millisecond // before a step is sent again; it doubles
	longestPause = 250 * time.Millisecond
)

// attempt sends a step until it is answered, or patience or ctx ends. All steps
// may be sent again.
func attempt(ctx context.Context, patience time.Duration, step func(context.Context) error) error {
	var start time.Time // of the first pause
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attemptOnce(ctx, step)
		if err == nil || permanent(err) {
			return err
		}
		if start.IsZero() {
			start = time.Now()
		}
		if time.Since(start) >= patience {
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
}

func attemptOnce(ctx context.Context, step func(context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return step(once)
}

// unsentError is one before which nothing can have come to Redis.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// neverSent says that an attempt failed before anything could reach a server.
func neverSent(err error) bool {
	if err == nil {
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

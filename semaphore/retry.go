package semaphore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/redisadapter"
)

const (
	// attemptTimeout bounds each attempt to send a step. It is less than the
	// claim window: a waiter whose acquire hangs asks again before its process
	// is taken for dead.
	attemptTimeout = 2 * time.Second

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
func attempt(ctx context.Context, patience time.Duration, timeout func() time.Duration, step func(context.Context) error) error {
	var start time.Time // of the first pause
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attemptOnce(ctx, timeout(), step)
		if err == nil || permanent(err) {
			return err
		}
		if start.IsZero() {
			start = protocol.Now()
		}
		if protocol.Now().Sub(start) >= patience {
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

// send is attempt for a step that is sent with this process's client id: if an
// answer was lost, grants may have been lost with it.
func (h *hub) send(ctx context.Context, patience time.Duration, step func(context.Context) error) error {
	return h.sendWithin(ctx, patience, func() time.Duration { return attemptTimeout }, step)
}

func (h *hub) sendWithin(ctx context.Context, patience time.Duration, timeout func() time.Duration, step func(context.Context) error) error {
	lost := false
	err := attempt(ctx, patience, timeout, func(ctx context.Context) error {
		err := step(ctx)
		lost = lost || ambiguous(err)
		return err
	})
	if lost {
		h.mu.Lock()
		h.suspect()
		h.mu.Unlock()
	}
	return err
}

// carry is send for a step whose answer may be large, or which takes size to be sent.
func (h *hub) carry(ctx context.Context, patience, size time.Duration, step func(context.Context) error) error {
	var usual time.Duration // the timeout of the attempt under way, without size
	timeout := func() time.Duration {
		usual = h.timeout()
		return usual + size
	}
	return h.sendWithin(ctx, patience, timeout, func(ctx context.Context) error {
		sent := protocol.Now()
		err := step(ctx)
		h.took(protocol.Now().Sub(sent)-size, usual, err)
		return err
	})
}

// longestAttempt is the most that an attempt gets whose answer may be large.
const longestAttempt = time.Minute

// timeout is that of the next attempt. The answers of a queue may be large jobs: where
// the link is too slow for one, the next attempt has twice the time.
func (h *hub) timeout() time.Duration {
	if h.key.kind != protocol.Queue {
		return attemptTimeout
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.slow, attemptTimeout)
}

// underWay is how long an attempt may be under way: a step that does harm when it
// comes later is void then.
func (h *hub) underWay() time.Duration { return h.timeout() + time.Second }

// took notes how long an attempt took, of how long it might have taken.
func (h *hub) took(d, usual time.Duration, err error) {
	if h.key.kind != protocol.Queue {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && d < h.slow/4:
		h.slow /= 2
	case err != nil && d > usual-100*time.Millisecond:
		h.slow = max(h.slow, min(2*usual, longestAttempt)) // many at once count as one
	}
}

// mostVoid is how often a step is sent anew that Redis found to come too late: a
// reading of the clock that was wrong is right after one answer.
const mostVoid = 3

// sendOnce sends a step that asks for something until there is an answer that
// counts. One that reaches Redis after its sender has given up is void, and a copy
// changes nothing; name tells the copies of one call. It takes size to be sent.
//
// Redis knows the name from the first copy on, for ten seconds or until that is void. So
// that it is known to the last copy, which is sent when the first has failed and has up to
// twice its time, all have the same void time where that may take longer.
func (h *hub) sendOnce(ctx context.Context, name string, size time.Duration, step func(context.Context, protocol.Call) (protocol.Header, protocol.Outcome, error)) error {
	call := protocol.Call{Name: name}
	for range mostVoid {
		var pinned int64 // the void time of all copies; 0: each has its own
		if span := 3 * (h.underWay() + size); span > protocol.CallKept {
			pinned = h.clock.VoidAfter(protocol.Now(), span)
		}
		var header protocol.Header
		var outcome protocol.Outcome
		err := h.carry(ctx, askPatience, size, func(ctx context.Context) (err error) {
			if call.VoidAfter = pinned; pinned == 0 {
				call.VoidAfter = h.clock.VoidAfter(protocol.Now(), h.underWay()+size)
			}
			header, outcome, err = step(ctx, call)
			call.Repeated = true
			return err
		})
		if err != nil {
			return err
		}
		h.heard(header)
		if outcome != protocol.Void {
			return nil
		}
	}
	return errVoid
}

// errVoid says that Redis took no copy of a step: the clock of the server jumps, or
// what the step asked for was given and is over.
var errVoid = fmt.Errorf("%w: no copy of the step counted", errAgain)

func attemptOnce(ctx context.Context, timeout time.Duration, step func(context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return step(once)
}

// ambiguous says that it is unknown, after an error of an attempt, whether the
// server has done or will do the step.
func ambiguous(err error) bool {
	var reply *redisadapter.ReplyError
	return err != nil && !redisadapter.IsNotSent(err) && !errors.As(err, &reply)
}

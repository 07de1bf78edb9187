package semaphore

import (
	"context"
	"fmt"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

// Resize changes the capacity of the semaphore, for all its handles, whatever
// their settings say. More permits are there at once, and go to the head of the
// queue first. Fewer are reached as permits come back: one that is held is
// never taken away. Whoever waits for more permits than there are then gets
// ErrExceedsCapacity within about a second. A semaphore that does not exist is
// created. The capacity lasts as long as the semaphore exists in Redis. Each permit more
// takes Redis about a microsecond.
//
// Errors: ErrInvalidArgument if the capacity is not from 1 to 1,000,000; ErrRedis,
// ErrVersion, ErrWrongType. After ErrRedis, or if ctx has ended, the capacity may
// have been changed or not.
func (s *Semaphore) Resize(ctx context.Context, capacity int) error {
	if capacity < 1 || capacity > maxCapacity {
		return &Error{"resize", s.key, ErrInvalidArgument, outOfBounds("the capacity", capacity, "from 1 to %d", maxCapacity)}
	}
	return s.resize(ctx, "resize", capacity, false)
}

// ReleaseStale takes back the permits of ended leases, and answers how many
// acquisitions those were. Nobody has to call it: every step does the same, and
// while somebody waits it is done the moment a lease ends.
func (s *Semaphore) ReleaseStale(ctx context.Context) (reclaimed int, err error) {
	for more := true; more; {
		err := s.ask(ctx, "release stale", func(ctx context.Context, steps protocol.Steps) (protocol.Header, error) {
			h, n, err := steps.Reclaim(ctx)
			reclaimed += int(n)
			more = h.More
			return h, err
		})
		if err != nil {
			return reclaimed, err
		}
	}
	return reclaimed, nil
}

// Exists says whether the semaphore is there, in Redis: from its first use until
// about twice its Expiration after its last.
func (s *Semaphore) Exists(ctx context.Context) (bool, error) {
	r, err := s.reading(ctx, "exists", 1)
	return r.Exists, err
}

// Delete removes the semaphore, whoever holds permits of it: holders find out when
// they release or renew. Who waits is not stranded: the semaphore is created
// again at once, with the capacity of a waiter's settings, and they go on in their
// order. Fences go on increasing. Nothing is left in Redis but the places of those
// who wait and, for ten seconds, what tells a repeated Delete from a new one.
func (s *Semaphore) Delete(ctx context.Context) error { return s.remove(ctx) }

// Wait is Lock, by its classic name.
func (s *Semaphore) Wait() (string, error) {
	return s.lock(context.Background(), "wait", s.settings.TryLockTimeout)
}

// Signal is Unlock, by its classic name; without a token (the empty string) it
// adds one more permit, as Resize does.
//
// Errors: those of Unlock; ErrInvalidArgument if there are 1,000,000 permits
// already.
func (s *Semaphore) Signal(token string) error {
	if token != "" {
		_, err := s.release(context.Background(), giving{op: "signal", token: token, patience: givePatience})
		return err
	}
	return s.resize(context.Background(), "signal", 1, true)
}

// resize sets the capacity, or adds to it.
func (s *Semaphore) resize(ctx context.Context, op string, by int, add bool) error {
	var capacity int64
	var outcome protocol.Outcome
	err := s.once(ctx, op, 0, func(ctx context.Context, steps protocol.Steps, call protocol.Call) (h protocol.Header, _ protocol.Outcome, err error) {
		h, outcome, capacity, err = steps.Resize(ctx, call, by, add)
		return h, outcome, err
	})
	if err != nil {
		return err
	}
	if outcome != protocol.Granted {
		return &Error{op, s.key, ErrInvalidArgument, fmt.Errorf("the capacity is %d, must be from 1 to %d", capacity, maxCapacity)}
	}
	s.warned.Store(true) // the settings are known to differ
	if log := s.log.at(logger.Info); log != nil {
		log.Log(logger.Info, "resized", "capacity", capacity)
	}
	return nil
}

func (e *engine) remove(ctx context.Context) error {
	err := e.once(ctx, "delete", 0, func(ctx context.Context, steps protocol.Steps, call protocol.Call) (protocol.Header, protocol.Outcome, error) {
		return steps.Delete(ctx, call)
	})
	if log := e.log.at(logger.Info); log != nil && err == nil {
		log.Log(logger.Info, "deleted")
	}
	return err
}

// ask sends a step that may be taken at any time and more than once, until it is
// answered, or ctx ends.
func (e *engine) ask(ctx context.Context, op string, step func(context.Context, protocol.Steps) (protocol.Header, error)) error {
	return e.with(ctx, op, func(h *hub) error {
		steps := e.steps(h)
		var header protocol.Header
		err := h.send(ctx, askPatience, func(ctx context.Context) (err error) {
			header, err = step(ctx, steps)
			return err
		})
		if err == nil {
			h.heard(header)
		}
		return err
	})
}

// once sends a step that must be taken once, and in time, or not at all. It takes size
// to be sent.
func (e *engine) once(ctx context.Context, op string, size time.Duration, step func(context.Context, protocol.Steps, protocol.Call) (protocol.Header, protocol.Outcome, error)) error {
	return e.with(ctx, op, func(h *hub) error {
		steps := e.steps(h)
		if err := e.learnTime(ctx, h, steps); err != nil {
			return err
		}
		return h.sendOnce(ctx, uniqueName(), size, func(ctx context.Context, call protocol.Call) (protocol.Header, protocol.Outcome, error) {
			return step(ctx, steps, call)
		})
	})
}

// learnTime asks for the server's time if nothing is known of it: else nobody could tell
// that a copy of the first call comes too late.
func (e *engine) learnTime(ctx context.Context, h *hub, steps protocol.Steps) error {
	if _, known := h.clock.Last(); known {
		return nil
	}
	return h.send(ctx, askPatience, func(ctx context.Context) error {
		header, _, _, _, err := steps.Status(ctx, "")
		if err == nil {
			h.heard(header)
		}
		return err
	})
}

// with runs what needs the live hub, and makes the error for the caller.
func (e *engine) with(ctx context.Context, op string, do func(*hub) error) error {
	if ctx.Err() != nil {
		return contextError(ctx, op, e.key)
	}
	h := live.enter(e.spare)
	defer live.exit(h)
	err := do(h)
	if err != nil && ctx.Err() != nil {
		return contextError(ctx, op, e.key)
	}
	if err != nil {
		return e.fail(op, err)
	}
	return nil
}

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

// request is what a caller asks for.
type request struct {
	op      string
	permits int
	full    bool          // with the full lease, whatever becomes of this process
	try     bool          // without waiting
	timeout time.Duration // of one attempt; 0: as long as the context lets it
}

// grant is what a caller gets.
type grant struct {
	token    string
	fence    int64
	deadline time.Time // local time
	short    bool      // the lease is the claim window, and to be extended
}

// errAgain says that a grant had ended before it could be used, and that its
// place in the queue is not known: the caller starts anew.
var errAgain = errors.New("granted too late")

// obtain gets permits, in turn. With an error nothing is held, and no place in
// the queue is kept.
func (s *Semaphore) obtain(ctx context.Context, req request) (grant, error) {
	start := protocol.Now()
	h := live.enter(s.spare)
	defer live.exit(h)
	for {
		if ctx.Err() != nil {
			return grant{}, s.gaveUp(contextError(ctx, req.op, s.key), start)
		}
		g, err := s.obtainOnce(ctx, h, req, start)
		if err == nil {
			return s.granted(g, start), nil
		}
		if err == errAgain && (req.timeout == 0 || protocol.Now().Sub(start) < req.timeout) {
			continue
		}
		if err == errAgain {
			err = &Error{req.op, s.key, ErrTimeout, err}
		}
		return grant{}, s.gaveUp(err, start)
	}
}

// obtainOnce asks with a new token.
func (s *Semaphore) obtainOnce(ctx context.Context, h *hub, req request, start time.Time) (grant, error) {
	w := &waiter{
		Waiter: protocol.Waiter{
			Token:   uuid.NewString(),
			Permits: req.permits,
			Lease:   s.settings.Expiration,
			Owner:   s.settings.Owner,
		},
		full:   req.full,
		result: make(chan delivery, 1),
	}
	h.add(w)
	a, err := s.acquire(ctx, h, w, req)
	if err != nil {
		return grant{}, err
	}
	s.compare(a.Capacity)
	switch a.Outcome {
	case protocol.Granted:
		h.settled(w)
		g := grant{token: w.Token, fence: a.Fence, deadline: a.Deadline(a.End)}
		// An earlier attempt, whose answer was lost, may have been queued and
		// granted since: then the lease is the claim window.
		g.short = a.End-a.Server < w.Lease.Milliseconds()
		if g.short && req.full {
			c := &claim{hub: h}
			c.add(w)
			g.deadline, _ = c.confirm(w.Token)
			g.short = false
		}
		if !protocol.Now().Before(g.deadline) {
			h.abandon(w)
			return grant{}, errAgain
		}
		return g, nil
	case protocol.Queued:
		if log := s.log.at(logger.Debug); log != nil {
			log.Log(logger.Debug, "waiting", "token", w.Token, "ticket", a.Ticket, "before", a.Places)
		}
		h.queue(w, a)
		return s.wait(ctx, h, w, req, start)
	default:
		h.settled(w)
		return grant{}, &Error{req.op, s.key, ErrNotAvailable, nil}
	}
}

func (s *Semaphore) granted(g grant, start time.Time) grant {
	if log := s.log.at(logger.Info); log != nil {
		log.Log(logger.Info, "locked", "token", g.token, "fence", g.fence, "waited", protocol.Now().Sub(start))
	}
	return g
}

func (s *Semaphore) gaveUp(err error, start time.Time) error {
	if log := s.log.at(logger.Info); log != nil {
		log.Log(logger.Info, "not locked", "error", err, "waited", protocol.Now().Sub(start))
	}
	return err
}

// acquire sends the acquire of an added waiter. If it fails the waiter is gone.
// A call that can be cancelled does not wait for an answer that is long in
// coming; what the answer brings is given back then.
func (s *Semaphore) acquire(ctx context.Context, h *hub, w *waiter, req request) (protocol.Acquired, error) {
	if ctx.Done() == nil {
		a, err := s.sendAcquire(ctx, h, w, req)
		if err != nil {
			h.forget(w, err)
			return a, s.fail(req.op, err)
		}
		return a, nil
	}
	type result struct {
		protocol.Acquired
		err error
	}
	answer, abandoned := make(chan result), make(chan struct{})
	live.hold(h)
	go func() { // ends when the steps are answered or have failed for good
		defer live.exit(h)
		a, err := s.sendAcquire(context.WithoutCancel(ctx), h, w, req)
		select {
		case answer <- result{a, err}:
		case <-abandoned:
			h.forget(w, err)
		}
	}()
	select {
	case r := <-answer:
		if r.err != nil {
			h.forget(w, r.err)
			return r.Acquired, s.fail(req.op, r.err)
		}
		return r.Acquired, nil
	case <-ctx.Done():
		close(abandoned)
		return protocol.Acquired{}, contextError(ctx, req.op, s.key)
	}
}

// sendAcquire sends until there is an answer that counts. A call that reaches
// Redis after its sender has given up is void.
func (s *Semaphore) sendAcquire(ctx context.Context, h *hub, w *waiter, req request) (a protocol.Acquired, err error) {
	if req.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, req.timeout)
		defer cancel()
	}
	steps := s.spare.steps
	steps.Process = h.steps.Process
	sent := false
	for range 3 { // a reading of the clock that was wrong is right after one answer
		err = attempt(ctx, askPatience, func(ctx context.Context) (err error) {
			void := h.clock.VoidAfter(protocol.Now(), attemptTimeout+time.Second)
			a, err = steps.Acquire(ctx, w.Waiter, !req.try, void)
			sent = sent || !neverSent(err)
			return err
		})
		if err != nil && !sent {
			err = unsentError{err}
		}
		if err != nil {
			return a, err
		}
		h.heard(a.Header)
		if a.Outcome != protocol.Void {
			return a, nil
		}
	}
	return a, errors.New("the clock of the server jumps")
}

// wait waits for the grant of a queued waiter. If it fails the waiter is gone.
func (s *Semaphore) wait(ctx context.Context, h *hub, w *waiter, req request, start time.Time) (grant, error) {
	var timer *time.Timer
	var timeout <-chan time.Time
	if req.timeout > 0 {
		timer = time.NewTimer(start.Add(req.timeout).Sub(protocol.Now()))
		defer timer.Stop()
		timeout = timer.C
	}
	for tries := 1; ; {
		select {
		case d := <-w.result:
			if d.err != nil {
				h.abandon(w)
				return grant{}, s.fail(req.op, d.err)
			}
			if d.claim != nil {
				deadline, ok := d.claim.confirm(w.Token)
				if !ok {
					h.requeue(w)
					continue
				}
				d.deadline = deadline
			}
			if ctx.Err() != nil {
				h.abandon(w)
				return grant{}, contextError(ctx, req.op, s.key)
			}
			return grant{w.Token, d.grant.Fence, d.deadline, d.claim == nil}, nil
		case <-ctx.Done():
			h.abandon(w)
			return grant{}, contextError(ctx, req.op, s.key)
		case <-timeout:
			if tries < s.settings.LockAttempts {
				if log := s.log.at(logger.Info); log != nil {
					log.Log(logger.Info, "still waiting", "token", w.Token, "attempt", tries, "of", s.settings.LockAttempts)
				}
				tries++
				timer.Reset(req.timeout)
				continue
			}
			trouble := h.lastTrouble()
			h.abandon(w)
			return grant{}, s.timedOut(req, tries, trouble)
		}
	}
}

// timedOut says how long was waited, and what trouble there was with Redis.
func (s *Semaphore) timedOut(req request, tries int, trouble error) error {
	cause := fmt.Errorf("%d × %v", tries, req.timeout)
	if trouble != nil {
		cause = fmt.Errorf("%w: %w", cause, redisError(req.op, s.key, trouble))
	}
	return &Error{req.op, s.key, ErrTimeout, cause}
}

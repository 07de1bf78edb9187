package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	start   time.Time     // of the call
}

// grant is what a caller gets.
type grant struct {
	token    string
	fence    int64
	deadline time.Time // local time
	short    bool      // the lease is the claim window, and to be extended
	job      protocol.Job
}

// errAgain says that a grant had ended before it could be used, and that its
// place in the queue is not known: the caller starts anew.
var errAgain = errors.New("granted too late")

// errMore is errAgain for a try that found none free, though there may be some: more
// leases have ended than one call takes back.
var errMore = fmt.Errorf("%w: not all that has ended was taken back", errAgain)

// mostTries is how often a caller starts anew.
const mostTries = 3

// obtain gets permits, in turn. With an error nothing is held, and no place in
// the queue is kept.
func (e *engine) obtain(ctx context.Context, req request) (grant, error) {
	req.start = protocol.Now()
	h := live.enter(e.spare)
	defer live.exit(h)
	var g grant
	err := errAgain
	for tries := 0; errors.Is(err, errAgain) && tries < mostTries; {
		if ctx.Err() != nil {
			err = contextError(ctx, req.op, e.key)
			break
		}
		if g, err = e.obtainOnce(ctx, h, req); err != errMore {
			tries++
		}
	}
	waited := protocol.Now().Sub(req.start)
	if err != nil {
		if log := e.log.at(logger.Info); log != nil {
			log.Log(logger.Info, e.words().notGot, "error", err, "waited", waited)
		}
		return grant{}, err
	}
	if log := e.log.at(logger.Info); log != nil {
		log.Log(logger.Info, e.words().got, "token", g.token, "fence", g.fence, "waited", waited)
	}
	return g, nil
}

// obtainOnce asks with a new token.
func (e *engine) obtainOnce(ctx context.Context, h *hub, req request) (grant, error) {
	w := &waiter{
		Waiter: protocol.Waiter{
			Token:   uuid.NewString(),
			Permits: req.permits,
			Lease:   e.settings.Expiration,
			Owner:   e.settings.Owner,
		},
		full:   req.full,
		atMost: e.base.Once,
		result: make(chan delivery, 1),
	}
	a, err := e.acquire(ctx, h, w, req)
	if err != nil {
		return grant{}, err
	}
	e.compare(a.Capacity)
	switch a.Outcome {
	case protocol.Granted:
		if !h.settled(w) { // the news came before the answer
			return e.wait(ctx, h, w, req)
		}
		d := delivery{grant: protocol.Grant{Token: w.Token, Fence: a.Fence}, deadline: a.Deadline(a.End)}
		// An earlier attempt, whose answer was lost, may have been queued and
		// granted since: then the lease is the claim window.
		if a.End-a.Server < w.Lease.Milliseconds() {
			if !req.full {
				return grant{token: w.Token, fence: a.Fence, deadline: d.deadline, short: true}, nil
			}
			d.claim = newClaim(h)
			d.claim.add(w)
		}
		if d.claim == nil && protocol.Now().Before(d.deadline) {
			return grant{token: w.Token, fence: a.Fence, deadline: d.deadline, job: a.Job}, nil
		}
		w.result <- d
		return e.wait(ctx, h, w, req)
	case protocol.Queued:
		if log := e.log.at(logger.Debug); log != nil {
			log.Log(logger.Debug, "waiting", "token", w.Token, "ticket", a.Ticket, "before", a.Places)
		}
		h.queue(w, a)
		return e.wait(ctx, h, w, req)
	case protocol.Exceeds:
		h.forget(w, false)
		return grant{}, e.exceeds(req, a.Capacity)
	default:
		h.forget(w, false)
		if a.More {
			return grant{}, errMore
		}
		return grant{}, &Error{req.op, e.key, ErrNotAvailable, nil}
	}
}

// acquire announces a waiter and sends its acquire. If it fails the waiter is
// gone. A call that can be cancelled does not wait for an answer that is long in
// coming; what the answer brings is given back then.
func (e *engine) acquire(ctx context.Context, h *hub, w *waiter, req request) (protocol.Acquired, error) {
	if ctx.Done() == nil {
		a, err := e.sendAcquire(ctx, h, w, req)
		return a, e.acquireFailed(h, w, req, err)
	}
	type result struct {
		protocol.Acquired
		err error
	}
	answer, abandoned := make(chan result), make(chan struct{})
	live.hold(h)
	go func() { // ends when the acquire is answered or has failed for good
		defer live.exit(h)
		a, err := e.sendAcquire(context.WithoutCancel(ctx), h, w, req)
		select {
		case answer <- result{a, err}:
		case <-abandoned:
			h.forget(w, err == nil && (a.Outcome == protocol.Granted || a.Outcome == protocol.Queued))
		}
	}()
	select {
	case r := <-answer:
		return r.Acquired, e.acquireFailed(h, w, req, r.err)
	case <-ctx.Done():
		close(abandoned)
		return protocol.Acquired{}, contextError(ctx, req.op, e.key)
	}
}

// acquireFailed gives up a waiter whose acquire has failed, and makes the error
// for the caller; nil if it has not.
func (e *engine) acquireFailed(h *hub, w *waiter, req request, err error) error {
	if err == nil {
		return nil
	}
	h.forget(w, false)
	if end, ok := e.end(req); ok && !protocol.Now().Before(end) {
		return e.timedOut(req, err)
	}
	return e.fail(req.op, err)
}

// sendAcquire sends until there is an answer that counts. A call that reaches
// Redis after its sender has given up is void.
func (e *engine) sendAcquire(ctx context.Context, h *hub, w *waiter, req request) (a protocol.Acquired, err error) {
	steps := e.base
	steps.Process = h.add(w)
	defer h.asked()
	if end, ok := e.end(req); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, end.Sub(protocol.Now()))
		defer cancel()
	}
	if e.base.Kind == protocol.Queue { // a job that a late copy takes may end with it
		if err := e.learnTime(ctx, h, steps); err != nil {
			return a, err
		}
	}
	err = h.sendOnce(ctx, w.Token, 0, func(ctx context.Context, call protocol.Call) (protocol.Header, protocol.Outcome, error) {
		underWay := h.underWay()
		a, err = steps.Acquire(ctx, w.Waiter, !req.try, call.VoidAfter, call.Repeated)
		if ambiguous(err) {
			w.again = protocol.Now().Add(underWay)
		}
		return a.Header, a.Outcome, err
	})
	return a, err
}

// end is when the wait of a request ends by its timeout, false if never.
func (e *engine) end(req request) (time.Time, bool) {
	if req.timeout == 0 {
		return time.Time{}, false
	}
	attempts := min(time.Duration(e.settings.LockAttempts), math.MaxInt64/req.timeout)
	return req.start.Add(req.timeout * attempts), true
}

// wait waits for the grant of a waiter. If it fails the waiter is gone.
func (e *engine) wait(ctx context.Context, h *hub, w *waiter, req request) (grant, error) {
	var timeout <-chan time.Time
	if end, ok := e.end(req); ok {
		timer := time.NewTimer(end.Sub(protocol.Now()))
		defer timer.Stop()
		timeout = timer.C
	}
	var d delivery
	var confirmed <-chan struct{}
	for {
		select {
		case d = <-w.result:
			if d.err != nil {
				h.abandon(w)
				if d.capacity > 0 {
					return grant{}, e.exceeds(req, d.capacity)
				}
				return grant{}, e.fail(req.op, d.err)
			}
			if d.claim != nil {
				d.claim.start()
				confirmed = d.claim.done
				continue
			}
		case <-confirmed:
			confirmed = nil
			var ok bool
			if d.deadline, ok = d.claim.deadline(w.Token); !ok && w.ticket != 0 {
				h.requeue(w)
				continue
			}
		case <-ctx.Done():
			h.abandon(w)
			return grant{}, contextError(ctx, req.op, e.key)
		case <-timeout:
			h.abandon(w)
			return grant{}, e.timedOut(req, h.lastTrouble())
		}
		if ctx.Err() != nil {
			h.abandon(w)
			return grant{}, contextError(ctx, req.op, e.key)
		}
		if !protocol.Now().Before(d.deadline) {
			h.abandon(w)
			return grant{}, &Error{req.op, e.key, ErrTimeout, errAgain}
		}
		g := grant{token: w.Token, fence: d.grant.Fence, deadline: d.deadline, short: d.claim == nil}
		if d.claim != nil {
			g.job = d.claim.job
		}
		return g, nil
	}
}

// exceeds says that there are not as many permits as are asked for.
func (e *engine) exceeds(req request, capacity int64) error {
	return &Error{req.op, e.key, ErrExceedsCapacity, fmt.Errorf("%d of %d", req.permits, capacity)}
}

// timedOut says how long was waited, and what trouble there was with Redis.
func (e *engine) timedOut(req request, trouble error) error {
	cause := fmt.Errorf("%d × %v", e.settings.LockAttempts, req.timeout)
	if trouble != nil {
		cause = fmt.Errorf("%w: %w", cause, redisError(req.op, e.key, trouble))
	}
	return &Error{req.op, e.key, ErrTimeout, cause}
}

package semaphore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

// errReleased is the cause of a permit's context after Release.
var errReleased = errors.New("permit released")

// Permit is a permit of a semaphore that lives with the code that acquired it.
// It may be used by many goroutines at once.
//
// A permit that was waited for belongs to the process from the moment of its
// grant, with a short lease at first, that is extended to Expiration within
// about a second; with AutoRenew it is renewed until Release.
type Permit struct {
	s     *Semaphore
	token string
	fence int64

	ctx    context.Context
	cancel context.CancelCauseFunc

	releasing sync.Mutex // one Release at a time

	mu       sync.Mutex
	deadline time.Time   // guarded by mu
	expiry   *time.Timer // runs expire at the deadline; guarded by mu
	renewed  *hub        // renews the lease, or nil; guarded by mu
	ended    bool        // released or lost; guarded by mu
}

// Acquire waits for a permit as long as ctx lets it. Errors are those of
// LockContext.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	return s.permit(ctx, request{op: "acquire", permits: 1})
}

// TryAcquire takes a permit if one is free and nobody waits, else the error is
// ErrNotAvailable.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	return s.permit(ctx, request{op: "try acquire", permits: 1, try: true})
}

// AcquireWithCustomTimeout is Acquire that waits as LockWithCustomTimeout does:
// LockAttempts times the timeout, which is from 1 second to Expiration.
func (s *Semaphore) AcquireWithCustomTimeout(timeout time.Duration) (*Permit, error) {
	if err := s.settings.validateTimeout("timeout", timeout); err != nil {
		return nil, &Error{"acquire", s.key, ErrInvalidSettings, err}
	}
	return s.permit(context.Background(), request{op: "acquire", permits: 1, timeout: timeout})
}

func (s *Semaphore) permit(ctx context.Context, req request) (*Permit, error) {
	g, err := s.obtain(ctx, req)
	if err != nil {
		return nil, err
	}
	p := &Permit{s: s, token: g.token, fence: g.fence, deadline: g.deadline}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expiry = time.AfterFunc(g.deadline.Sub(protocol.Now()), p.expire)
	full := s.settings.Expiration
	l := &lease{Renewal: protocol.Renewal{Token: g.token, Lease: full}, permit: p}
	first := full
	if g.short {
		first = min(full, protocol.ClaimWindow)
	}
	if s.settings.AutoRenew {
		l.again = full / 3
	}
	if s.settings.AutoRenew || first < full {
		l.due = protocol.Now().Add(first / 3)
		p.renewed = live.enter(s.spare)
		p.renewed.keep(l)
	}
	return p, nil
}

// Token is the token of the permit, as from Lock: any process can unlock it.
func (p *Permit) Token() string { return p.token }

// Fence is a number that is greater than that of every permit granted before it.
// A store that refuses a lower number than it has seen is safe from holders that
// do not know yet that they lost their permit.
func (p *Permit) Fence() int64 { return p.fence }

// Deadline is when the lease ends unless it is extended, on the local clock:
// never later than it ends in Redis.
func (p *Permit) Deadline() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadline
}

// Context ends when the permit is released or lost; context.Cause says which:
// it matches ErrLost in the latter case. It has the values of the context that
// Acquire was given, but does not end with it.
func (p *Permit) Context() context.Context { return p.ctx }

// Done is closed when the permit is released or lost.
func (p *Permit) Done() <-chan struct{} { return p.ctx.Done() }

// Refresh extends the lease: it ends in Expiration from now, unless it would
// have ended later. ErrNotHeld if the permit was released or is lost.
func (p *Permit) Refresh(ctx context.Context) error {
	if cause := context.Cause(p.ctx); cause != nil {
		return &Error{"refresh", p.s.key, ErrNotHeld, cause}
	}
	deadline, err := p.s.refresh(ctx, "refresh", p.token)
	if errors.Is(err, ErrNotHeld) {
		p.lose(ErrNotHeld)
	}
	if err != nil {
		return err
	}
	p.extend(deadline)
	if cause := context.Cause(p.ctx); cause != nil { // it ended meanwhile: nobody uses it any more
		p.s.release(ctx, "refresh", p.token, time.Time{})
		return &Error{"refresh", p.s.key, ErrNotHeld, cause}
	}
	return nil
}

// Release gives the permit back, and answers how many are free then. It is sent
// even if ctx has ended, and repeated for about ten seconds at most.
//
// Errors: ErrNotHeld if the permit was released before, or was lost, and then
// ErrLost too; ErrRedis if Redis could not be reached: the permit comes back at
// the end of its lease then.
func (p *Permit) Release(ctx context.Context) (available int, err error) {
	p.releasing.Lock()
	defer p.releasing.Unlock()
	held := p.end(errReleased)
	cause := context.Cause(p.ctx)
	var until time.Time
	if held {
		until = p.Deadline()
	}
	available, err = p.s.release(ctx, "release", p.token, until)
	var failure *Error
	if errors.As(err, &failure) && failure.Err == ErrNotHeld {
		switch {
		case held: // until now, as far as this process knew
			failure.Cause = ErrLost
		case cause != errReleased:
			failure.Cause = cause
		}
	}
	return available, err
}

// extend moves the deadline on.
func (p *Permit) extend(deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || !deadline.After(p.deadline) {
		return
	}
	p.deadline = deadline
	p.expiry.Reset(deadline.Sub(protocol.Now()))
}

// expire runs at the deadline.
func (p *Permit) expire() {
	p.mu.Lock()
	early := protocol.Now().Before(p.deadline) // extended while the timer fired
	p.mu.Unlock()
	if !early {
		p.lose(errors.New("the lease has ended"))
	}
}

// lose ends a permit that is held no more.
func (p *Permit) lose(why error) {
	if !p.end(&Error{"hold", p.s.key, ErrLost, why}) {
		return
	}
	if log := p.s.log.at(logger.Error); log != nil {
		log.Log(logger.Error, "permit lost", "token", p.token, "reason", why)
	}
}

// end stops the clock and the renewal, and ends the context. It is false if the
// permit had ended before.
func (p *Permit) end(cause error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.ended = true
	p.expiry.Stop()
	if p.renewed != nil {
		p.renewed.drop(p.token)
		live.exit(p.renewed)
		p.renewed = nil
	}
	p.cancel(cause)
	return true
}

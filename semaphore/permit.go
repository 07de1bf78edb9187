package semaphore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

// given is the cause of a permit's context when the caller has given it back.
type given string

func (g given) Error() string { return string(g) }

const (
	errReleased given = "permit released"
	errDone     given = "job done"
	errReturned given = "job returned"
)

// Permit is a permit of a semaphore that lives with the code that acquired it.
// It may be used by many goroutines at once.
//
// A permit that was waited for belongs to the process from the moment of its
// grant, with a short lease at first, that is extended to Expiration within
// about a second; with AutoRenew it is renewed until Release.
type Permit struct {
	e     *engine
	token string
	n     int
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
	return s.AcquireN(ctx, 1)
}

// AcquireN is Acquire for n permits: all of them or none. First come, first served
// holds whatever the sizes: who waits for many is not overtaken by those who want
// few, and so is not starved. The Permit is released as a whole, which takes Redis
// about a microsecond for each.
//
// Errors beside those of Acquire: ErrInvalidArgument if n is below 1 or above
// 1,000,000; ErrExceedsCapacity if n is above the capacity, at once or when
// Resize lowers it during the wait.
func (s *Semaphore) AcquireN(ctx context.Context, n int) (*Permit, error) {
	return s.permit(ctx, request{op: "acquire", permits: n})
}

// TryAcquire takes a permit if one is free and nobody waits, else the error is
// ErrNotAvailable.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	return s.TryAcquireN(ctx, 1)
}

// TryAcquireN is TryAcquire for n permits: all of them or none. Errors beside: those
// of AcquireN.
func (s *Semaphore) TryAcquireN(ctx context.Context, n int) (*Permit, error) {
	return s.permit(ctx, request{op: "try acquire", permits: n, try: true})
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
	if req.permits < 1 || req.permits > maxCapacity {
		return nil, &Error{req.op, s.key, ErrInvalidArgument,
			outOfBounds("the number of permits", req.permits, "from 1 to the capacity, %d at most", maxCapacity)}
	}
	g, err := s.obtain(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.newPermit(ctx, g, req.permits), nil
}

// newPermit makes the handle for what was granted.
func (e *engine) newPermit(ctx context.Context, g grant, n int) *Permit {
	p := &Permit{e: e, token: g.token, n: n, fence: g.fence, deadline: g.deadline}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expiry = time.AfterFunc(g.deadline.Sub(protocol.Now()), p.expire)
	full := e.settings.Expiration
	l := &lease{Renewal: protocol.Renewal{Token: g.token, Lease: full}, permit: p}
	first := full
	if g.short {
		first = min(full, protocol.ClaimWindow)
	}
	if e.settings.AutoRenew {
		l.again = full / 3
	}
	if e.settings.AutoRenew || first < full {
		l.due = protocol.Now().Add(first / 3)
		p.renewed = live.enter(e.spare)
		p.renewed.keep(l)
	}
	return p
}

// Token is the token of the permit, as from Lock: any process can unlock it.
func (p *Permit) Token() string { return p.token }

// Permits is how many permits it is: n of AcquireN.
func (p *Permit) Permits() int { return p.n }

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
// Acquire was given, but does not end with it: see Bind.
//
// Its Err is exact: once the lease has ended by the local clock it says so, even in the
// first instruction after the process was paused. Done, and contexts derived from it,
// follow as soon as the runtime comes to its timers.
func (p *Permit) Context() context.Context { return heldContext{p.ctx, p} }

// Bind derives a context from ctx that ends also when the permit is released or lost,
// with the cause of Context then, and as exactly. Call stop when it is not needed
// any more.
func (p *Permit) Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	return heldContext{bound, p}, func() {
		unhook()
		cancel(nil)
	}
}

// heldContext is a context that ends with a permit. The timer that ends it may be late,
// after a pause of the process; a look at the clock is not.
type heldContext struct {
	context.Context
	p *Permit
}

func (c heldContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		return err
	}
	c.p.expire()
	if c.p.ctx.Err() != nil {
		<-c.Done()
	}
	return c.Context.Err()
}

// Done is closed when the permit is released or lost.
func (p *Permit) Done() <-chan struct{} { return p.ctx.Done() }

// Refresh extends the lease: it ends in Expiration from now, unless it would
// have ended later. ErrNotHeld if the permit was released or is lost.
func (p *Permit) Refresh(ctx context.Context) error {
	if cause := context.Cause(p.ctx); cause != nil {
		return &Error{"refresh", p.e.key, ErrNotHeld, cause}
	}
	deadline, err := p.e.refresh(ctx, "refresh", p.token)
	if errors.Is(err, ErrNotHeld) {
		p.lose(ErrNotHeld)
	}
	if err != nil {
		return err
	}
	p.extend(deadline)
	cause := context.Cause(p.ctx)
	if cause == nil {
		return nil
	}
	if errors.Is(cause, ErrLost) { // meanwhile: nobody uses it any more
		p.clear(ctx, giving{op: "refresh", token: p.token, done: p.e.base.Once})
	}
	return &Error{"refresh", p.e.key, ErrNotHeld, cause}
}

// clear gives back what Redis may have left of a permit that is lost, if that can be
// done at once: else its lease ends by itself.
func (p *Permit) clear(ctx context.Context, g giving) (available int) {
	g.patience = 0
	available, _ = p.e.release(ctx, g)
	return available
}

// Release gives the permit back, and answers how many are free then. It is sent
// even if ctx has ended, and repeated for about ten seconds at most.
//
// Errors: ErrNotHeld if the permit was released before, or was lost, and then
// ErrLost too; ErrRedis if Redis could not be reached: the permit comes back at
// the end of its lease then.
func (p *Permit) Release(ctx context.Context) (available int, err error) {
	return p.give(ctx, "release", errReleased, false)
}

// give ends the permit for a reason of the caller's. done says of a job that it shall
// not be delivered again.
func (p *Permit) give(ctx context.Context, op string, reason given, done bool) (available int, err error) {
	p.releasing.Lock()
	defer p.releasing.Unlock()
	held := p.end(reason)
	why := context.Cause(p.ctx)
	g := giving{op: op, token: p.token, done: done, patience: givePatience}
	switch {
	case held:
		g.heldUntil = p.Deadline()
	case errors.Is(why, ErrLost):
		g.done = g.done && p.e.base.Once // else whoever undoes its work now may count on another delivery
		return p.clear(ctx, g), &Error{op, p.e.key, ErrNotHeld, why}
	}
	available, err = p.e.release(ctx, g)
	var failure *Error
	if errors.As(err, &failure) && failure.Err == ErrNotHeld {
		failure.Cause = why // it was given back before
		if held {           // until now, as far as this process knew
			failure.Cause = ErrLost
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
	if !p.end(&Error{"hold", p.e.key, ErrLost, why}) {
		return
	}
	if log := p.e.log.at(logger.Error); log != nil {
		log.Log(logger.Error, "lost", "token", p.token, "reason", why)
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

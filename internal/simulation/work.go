package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/semaphore"
)

// worker is one goroutine of a process that wants permits.
type worker struct {
	*process
	rng *rand.Rand
	ctx context.Context
}

// nap lets a while pass, which no two workers share to the nanosecond: so they never
// do something at the same moment, and a run can be repeated.
func (k *worker) nap(most time.Duration) {
	time.Sleep(time.Duration(k.rng.Int64N(int64(most))))
}

// awake waits until the process may go on; it is false if it is dead.
func (k *worker) awake() bool {
	alive := k.process.awake()
	k.nap(time.Millisecond) // several may have been woken at one moment
	return alive
}

func (k *worker) work() {
	for range k.w.Rounds {
		k.nap(k.w.Busy)
		if !k.awake() {
			return
		}
		if k.w.Queue {
			k.takeJob()
		} else {
			k.takePermit()
		}
	}
}

// patience is a context for a wait.
func (k *worker) patience() (context.Context, context.CancelFunc) {
	how := k.rng.IntN(4)
	if k.w.Queue && how > 1 { // there may be fewer jobs than who waits for one
		how = 0
	}
	switch how {
	case 0:
		return context.WithTimeout(k.ctx, time.Duration(k.rng.Int64N(int64(3*time.Second))))
	case 1:
		ctx, cancel := context.WithCancel(k.ctx)
		time.AfterFunc(time.Duration(k.rng.Int64N(int64(time.Second))), cancel)
		return ctx, cancel
	default:
		return context.WithCancel(k.ctx)
	}
}

func (k *worker) takePermit() {
	s := k.plain
	if k.rng.IntN(3) == 0 {
		s = k.auto
	}
	ctx, cancel := k.patience()
	defer cancel()
	k.nap(time.Millisecond)
	start := time.Now()
	how := k.rng.IntN(5)
	n := 1
	if how == 0 && k.rng.IntN(2) == 0 {
		n = 1 + k.rng.IntN(k.w.Capacity)
	}
	switch how {
	case 0, 1:
		permit, err := s.AcquireN(ctx, n)
		k.usePermit(permit, err, start)
	case 2:
		permit, err := s.TryAcquireN(ctx, n)
		k.usePermit(permit, err, start)
	case 3:
		token, err := s.LockContext(ctx)
		k.useToken(s, token, err, start)
	case 4:
		token, err := s.Lock()
		k.useToken(s, token, err, start)
	}
}

// failed checks that an error is one of those that may be.
func (k *worker) failed(err error) bool {
	if err == nil {
		return false
	}
	for _, known := range []error{semaphore.ErrTimeout, semaphore.ErrCanceled, semaphore.ErrNotAvailable, semaphore.ErrRedis} {
		if errors.Is(err, known) {
			return true
		}
	}
	k.flaw("unexpected error: %v", err)
	return true
}

func (k *worker) flaw(format string, args ...any) {
	k.w.locked(func() { k.w.checks.flaw(format, args...) })
}

// got notes a permit that a call has returned; it is nil if the process is dead or
// does not hold it any more, when it wakes up.
func (k *worker) got(token string, fence int64, permits int, start time.Time, believe func() bool) *held {
	if !k.awake() || !believe() {
		return nil
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.w.happened("process %d holds", k.id)
	k.w.counts.LongestWait = max(k.w.counts.LongestWait, time.Since(start))
	if k.w.Queue { // see delivered
		return &held{}
	}
	return k.w.checks.believes(token, fence, permits, func() bool { return !k.dead && believe() })
}

// stay is how long a permit is held.
func (k *worker) stay() time.Duration {
	most := 30 * time.Millisecond
	if k.rng.IntN(5) == 0 {
		most = 2 * k.w.Expiration
	}
	return time.Duration(k.rng.Int64N(int64(most)))
}

func (k *worker) usePermit(permit *semaphore.Permit, err error, start time.Time) {
	if k.failed(err) {
		return
	}
	leaving := false
	believe := func() bool { return !leaving && permit.Context().Err() == nil && time.Now().Before(permit.Deadline()) }
	h := k.got(permit.Token(), permit.Fence(), permit.Permits(), start, believe)
	for range k.rng.IntN(3) {
		time.Sleep(k.stay())
		if k.rng.IntN(3) == 0 && k.awake() {
			k.refresh(h, permit, believe)
		}
	}
	if !k.awake() || k.rng.IntN(12) == 0 && h != nil { // it forgets to release
		k.abandon(permit)
		return
	}
	held := believe()
	k.w.locked(func() { leaving = true })
	deadline := permit.Deadline()
	_, err = permit.Release(k.ctx)
	k.released(h, permit.Token(), err, held && time.Now().Before(deadline))
}

// abandon never releases: the lease of a permit that is not renewed ends by itself. One
// that is renewed lasts as long as the process.
func (k *worker) abandon(permit *semaphore.Permit) {
	if !k.awake() {
		<-permit.Done() // no answer comes any more
		return
	}
	time.AfterFunc(20*time.Second, func() { permit.Release(k.ctx) })
	<-permit.Done()
}

func (k *worker) refresh(h *held, permit *semaphore.Permit, believe func() bool) {
	held, deadline := believe(), permit.Deadline()
	err := permit.Refresh(k.ctx)
	if errors.Is(err, semaphore.ErrNotHeld) {
		k.notHeld(h, "refresh", permit.Token(), held && time.Now().Before(deadline))
	} else {
		k.failed(err)
	}
}

// notHeld checks that a permit may be lost which was believed to be held.
func (k *worker) notHeld(h *held, op, token string, held bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if held && h != nil && !h.void && k.w.checks.losses == 0 && !k.w.checks.forgot && !k.dead {
		k.w.checks.flaw("%s: %s is not held, before the end of its lease", op, token)
	}
}

// released checks the answer of a release; held says that the permit was believed
// to be held until it came.
func (k *worker) released(h *held, token string, err error, held bool) {
	switch {
	case err == nil:
		k.w.locked(func() { k.w.checks.gaveBack(token) })
	case errors.Is(err, semaphore.ErrNotHeld):
		k.notHeld(h, "release", token, held)
	default:
		k.failed(err)
	}
}

func (k *worker) useToken(s *semaphore.Semaphore, token string, err error, start time.Time) {
	if k.failed(err) {
		return
	}
	leaving := false
	until := start.Add(k.w.Expiration - 2*time.Millisecond) // the lease is a full one, and began after start
	believe := func() bool { return !leaving && time.Now().Before(until) }
	var fence int64
	k.w.locked(func() {
		for h, known := range k.w.checks.holds {
			if h.token == token && h.fence > fence && known.believe == nil {
				fence = h.fence
			}
		}
	})
	h := k.got(token, fence, 1, start, believe)
	k.w.locked(func() { k.w.checks.fullLease(token, start) })
	time.Sleep(k.stay())
	if !k.awake() || k.rng.IntN(12) == 0 {
		return
	}
	held := believe()
	k.w.locked(func() { leaving = true })
	err = s.Unlock(token)
	k.released(h, token, err, held && time.Now().Before(until))
}

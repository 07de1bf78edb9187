package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/semaphore"
)

// lock holds a token.
func (w *worker) lock() {
	o := w.ask()
	token, err := w.semaphore.Lock()
	if err != nil {
		o.refused(err, semaphore.ErrTimeout)
		return
	}
	// This is what the caller of Lock knows: the lease began after he asked.
	o.write(crashtest.Record{Event: crashtest.Holds, Token: token, Permits: 1, Until: o.asked + int64(w.Settings.Expiration)})
	o.inspect(func(h semaphore.Holder) bool { return h.Token == token })
	doze(4 * time.Millisecond)
	o.write(crashtest.Record{Event: crashtest.Leaving})
	o.ended(w.semaphore.Unlock(token))
}

// inspect notes what Redis says of a hold whose lease the caller does not see.
func (o *op) inspect(mine func(semaphore.Holder) bool) {
	sent := crashtest.Clock()
	s, err := o.w.semaphore.Inspect(context.Background())
	if err != nil {
		o.write(crashtest.Record{Event: crashtest.Failed, Err: err.Error()})
		return
	}
	for _, h := range s.Holders {
		if mine(h) {
			o.write(crashtest.Record{Event: crashtest.Renewed, Token: h.Token, Fence: h.Fence,
				Until: sent + int64(h.Expires.Sub(s.Time)-time.Millisecond)}) // Time was cut to whole ms
		}
	}
}

// permit holds a Permit for a moment.
func (w *worker) permit() {
	w.acquire(w.ctx, 1, 4*time.Millisecond)
}

// wait is mostly in the queue.
func (w *worker) wait() {
	w.acquire(w.ctx, 1, 20*time.Millisecond)
}

// weighted holds any number of permits.
func (w *worker) weighted() {
	w.acquire(w.ctx, 1+rand.IntN(w.Settings.MaxParallelResources), 4*time.Millisecond)
}

// cancel gives up soon.
func (w *worker) cancel() {
	ctx, stop := context.WithTimeout(w.ctx, rand.N(20*time.Millisecond))
	defer stop()
	w.acquire(ctx, 1, time.Millisecond)
}

func (w *worker) acquire(ctx context.Context, n int, work time.Duration) {
	o := w.ask()
	p, err := w.semaphore.AcquireN(ctx, n)
	if err != nil {
		o.refused(err, semaphore.ErrCanceled, semaphore.ErrTimeout)
		return
	}
	o.holds(p)
	doze(work)
	o.release(p)
}

func (o *op) holds(p *semaphore.Permit) {
	o.write(crashtest.Record{Event: crashtest.Holds, Token: p.Token(), Fence: p.Fence(), Permits: p.Permits(),
		Until: crashtest.ClockAt(p.Deadline())})
}

func (o *op) release(p *semaphore.Permit) {
	o.write(crashtest.Record{Event: crashtest.Leaving, Until: crashtest.ClockAt(p.Deadline())})
	_, err := p.Release(context.Background())
	o.ended(err)
}

// try does not wait.
func (w *worker) try() {
	o := w.ask()
	p, err := w.semaphore.TryAcquire(w.ctx)
	if err != nil {
		o.refused(err, semaphore.ErrNotAvailable, semaphore.ErrCanceled)
		doze(8 * time.Millisecond)
		return
	}
	o.holds(p)
	doze(2 * time.Millisecond)
	o.release(p)
	doze(8 * time.Millisecond)
}

// renew holds a Permit for longer than its lease, and notes how that is extended.
func (w *worker) renew() {
	o := w.ask()
	p, err := w.semaphore.Acquire(w.ctx)
	if err != nil {
		o.refused(err, semaphore.ErrCanceled)
		return
	}
	o.holds(p)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	last := p.Deadline()
	for over := time.After(w.Settings.Expiration + rand.N(w.Settings.Expiration)); ; {
		select {
		case <-ticker.C:
			if d := p.Deadline(); d.After(last) {
				last = d
				o.write(crashtest.Record{Event: crashtest.Renewed, Until: crashtest.ClockAt(d)})
			}
			continue
		case <-over:
		case <-p.Done():
		case <-w.ctx.Done():
		}
		break
	}
	o.release(p)
}

// mutex runs code under WithMutex. The owner tells it from others of this process.
func (w *worker) mutex() {
	o := w.ask()
	settings := w.Settings
	settings.Owner += "." + strconv.FormatInt(o.n, 10)
	ran := false
	err := redsem.WithMutex(w.Key, w.client, nil, func() {
		ran = true
		o.write(crashtest.Record{Event: crashtest.Holds, Permits: 1, Until: o.asked + int64(settings.Expiration)})
		o.inspect(func(h semaphore.Holder) bool { return h.Owner == settings.Owner })
		doze(4 * time.Millisecond)
		o.write(crashtest.Record{Event: crashtest.Leaving})
	}, settings)
	if ran {
		o.ended(err)
	} else {
		o.refused(err, semaphore.ErrTimeout)
	}
}

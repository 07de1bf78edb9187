package main

import (
	"context"
	"time"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/semaphore"
)

// paused reads the clock until it shows a gap as long as a pause; it is then the
// first code of the process that runs again, or nearly so. last is a reading from before
// anybody knew that this process holds something. It is false if the standard input ends
// before.
func (w *worker) paused(last int64) bool {
	for w.ctx.Err() == nil {
		now := crashtest.Clock()
		if now-last > int64(w.Pause) {
			return true
		}
		last = now
	}
	return false
}

// resumed notes what the process may believe of its hold after a pause, and then when
// it is told of the loss.
func (o *op) resumed(ctx context.Context, deadline func() time.Time) {
	r := crashtest.Record{Event: crashtest.Resumed}
	if err := ctx.Err(); err != nil {
		r.Err = err.Error()
	}
	if deadline != nil {
		r.Until = crashtest.ClockAt(deadline())
	}
	o.write(r)
	select {
	case <-ctx.Done():
		o.write(crashtest.Record{Event: crashtest.Closed, Err: context.Cause(ctx).Error()})
	case <-o.w.ctx.Done():
	}
}

func (w *worker) pausePermit() {
	o := w.ask()
	p, err := w.semaphore.Acquire(w.ctx)
	if err != nil {
		o.refused(err)
		return
	}
	last := crashtest.Clock()
	o.holds(p)
	if w.paused(last) {
		o.resumed(p.Context(), p.Deadline)
	}
	o.release(p)
}

// pauseRelease releases at once, whether it knows of the loss or not.
func (w *worker) pauseRelease() {
	o := w.ask()
	p, err := w.semaphore.Acquire(w.ctx)
	if err != nil {
		o.refused(err)
		return
	}
	last := crashtest.Clock()
	o.holds(p)
	if w.paused(last) {
		_, err := p.Release(context.Background())
		o.write(crashtest.Record{Event: crashtest.Resumed})
		o.ended(err)
		return
	}
	o.release(p)
}

func (w *worker) pauseJob() {
	o := w.ask()
	job, err := w.queue.Wait(w.ctx)
	if err != nil {
		o.refused(err)
		return
	}
	last := crashtest.Clock()
	o.has(job)
	if w.paused(last) {
		o.resumed(job.Context(), job.Deadline)
	}
	o.end(job, false)
}

func (w *worker) pauseMutex() {
	o := w.ask()
	o.ended(redsem.WithMutexContext(w.ctx, w.Key, w.client, nil, func(ctx context.Context) error {
		last := crashtest.Clock()
		o.write(crashtest.Record{Event: crashtest.Holds, Permits: 1, Until: o.asked + int64(w.Settings.Expiration)})
		if w.paused(last) {
			o.resumed(ctx, nil)
		}
		o.write(crashtest.Record{Event: crashtest.Leaving})
		return nil
	}, w.Settings))
}

func (w *worker) pauseLock() {
	o := w.ask()
	token, err := w.semaphore.Lock()
	if err != nil {
		o.refused(err, semaphore.ErrTimeout)
		return
	}
	last := crashtest.Clock()
	o.write(crashtest.Record{Event: crashtest.Holds, Token: token, Permits: 1, Until: o.asked + int64(w.Settings.Expiration)})
	if w.paused(last) {
		o.write(crashtest.Record{Event: crashtest.Resumed})
	}
	o.write(crashtest.Record{Event: crashtest.Leaving})
	o.ended(w.semaphore.Unlock(token))
}

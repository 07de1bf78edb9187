package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redsem/redsem/semaphore"
)

// job is what the world knows of one.
type job struct {
	signalled  bool // Signal said so
	asked      bool // Done was called
	done       bool // Done said so
	deliveries int
	returned   int         // on purpose
	believe    func() bool // somebody works on it
}

// produce signals jobs, a few at a time.
func (k *worker) produce() {
	for i := range k.w.Rounds {
		k.nap(k.w.Busy)
		if !k.awake() {
			return
		}
		var batch []string
		for j := range 1 + k.rng.IntN(3) {
			batch = append(batch, fmt.Sprintf("job %d-%d-%d", k.id, i, j))
		}
		k.w.locked(func() {
			for _, name := range batch {
				k.w.checks.jobs[name] = &job{}
			}
		})
		_, err := k.queue.Signal(k.ctx, batch...)
		if k.failed(err) || !k.awake() {
			continue
		}
		k.w.locked(func() {
			for _, name := range batch {
				k.w.checks.jobs[name].signalled = true
			}
		})
	}
}

// takeJob waits for a job and works on it.
func (k *worker) takeJob() {
	ctx, cancel := k.patience()
	defer cancel()
	wait := k.queue.Wait
	if k.rng.IntN(3) == 0 {
		wait = k.queue.TryWait
	}
	start := time.Now()
	j, err := wait(ctx)
	if k.failed(err) {
		return
	}
	k.gotJob(j, start)
}

// gotJob works on a job.
func (k *worker) gotJob(j *semaphore.Job, start time.Time) {
	over := false
	believe := func() bool { return !over && j.Context().Err() == nil && time.Now().Before(j.Deadline()) }
	h := k.got("", j.Fence(), 1, start, believe)
	if h == nil { // it is too late, and the process knows
		return
	}
	k.w.locked(func() { k.w.checks.delivered(j, func() bool { return !k.dead && believe() }) })
	time.Sleep(k.stay())
	if !k.awake() || k.rng.IntN(10) == 0 {
		return
	}
	held, deadline := believe(), j.Deadline()
	k.w.locked(func() { over = true })
	give, back := j.Done, k.rng.IntN(8) == 0
	k.w.locked(func() {
		if back {
			give = j.Return
			k.w.checks.jobs[j.Value].returned++
		} else {
			k.w.checks.jobs[j.Value].asked = true
		}
	})
	err := give(k.ctx)
	switch {
	case errors.Is(err, semaphore.ErrNotHeld):
		k.notHeld(h, "done", j.Value, held && time.Now().Before(deadline))
	case k.failed(err):
	case !back:
		k.w.locked(func() { k.w.checks.jobs[j.Value].done = true })
	}
}

// delivered checks a delivery.
func (c *checks) delivered(j *semaphore.Job, believe func() bool) {
	known, ok := c.jobs[j.Value]
	if !ok {
		c.flaw("%q was never signalled", j.Value)
		return
	}
	known.deliveries++
	if c.losses > 0 || c.forgot {
		return
	}
	if known.done {
		c.flaw("%q is done, and was delivered again", j.Value)
	}
	if known.believe != nil && known.believe() {
		c.flaw("%q is worked on by two", j.Value)
	}
	if c.w.Once && known.deliveries > 1+known.returned {
		c.flaw("%q was delivered %d times", j.Value, known.deliveries)
	}
	known.believe = believe
}

// drain works off what is left, and checks that nothing was lost.
func (w *world) drain() {
	p := newProcess(w, len(w.processes))
	k := p.worker(w.rng("drain", 0))
	for idle := 0; idle < 3; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		j, err := p.queue.TryWait(ctx)
		cancel()
		if err == nil {
			k.w.locked(func() { w.checks.delivered(j, func() bool { return true }) })
			k.w.locked(func() { w.checks.jobs[j.Value].asked = true })
			k.failed(j.Done(context.Background()))
			idle = 0
			continue
		}
		k.failed(err)
		idle++
		time.Sleep(2*w.Expiration + 10*time.Second) // leases end, and messages come that were long under way
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, known := range w.checks.jobs {
		excused := w.checks.losses > 0 || w.Once // whose consumer may have died
		if known.signalled && !known.asked && !excused {
			w.checks.flaw("%q was signalled, and never done", name)
		}
		if w.Once && known.signalled && known.deliveries == 0 && w.checks.losses == 0 && w.Losses == 0 && len(w.Faults) == 0 {
			w.checks.flaw("%q was never delivered", name)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/semaphore"
)

// backlog is how many jobs are ready when a producer pauses.
const backlog = 100

// signal adds a few jobs.
func (w *worker) signal() {
	o := &op{w: w, n: w.ops.Add(1)}
	var values []string
	for i := range 1 + rand.IntN(4) {
		values = append(values, fmt.Sprintf("%d.%d.%d", w.Child, o.n, i))
	}
	o.write(crashtest.Record{Event: crashtest.Signals, Values: values})
	ready, err := w.queue.Signal(context.Background(), values...)
	if err != nil {
		o.write(crashtest.Record{Event: crashtest.Failed, Err: err.Error()})
		return
	}
	o.write(crashtest.Record{Event: crashtest.Signalled, Values: values})
	if ready > backlog {
		time.Sleep(20 * time.Millisecond)
	}
	doze(4 * time.Millisecond)
}

// consume works on a job, and is done with it or, now and then, gives it back.
func (w *worker) consume() { w.work(rand.IntN(10) == 0) }

func (w *worker) consumeOnce() { w.work(false) }

func (w *worker) work(back bool) {
	o := w.ask()
	job, err := w.queue.Wait(w.ctx)
	if err != nil {
		o.refused(err, semaphore.ErrCanceled)
		return
	}
	o.has(job)
	doze(4 * time.Millisecond)
	o.end(job, back)
}

func (o *op) has(job *semaphore.Job) {
	o.write(crashtest.Record{Event: crashtest.Holds, Job: job.ID(), Value: job.Value, Fence: job.Fence(), Permits: 1,
		Until: crashtest.ClockAt(job.Deadline())})
}

func (o *op) end(job *semaphore.Job, back bool) {
	o.write(crashtest.Record{Event: crashtest.Leaving, Return: back, Until: crashtest.ClockAt(job.Deadline())})
	end := job.Done
	if back {
		end = job.Return
	}
	o.ended(end(context.Background()))
}

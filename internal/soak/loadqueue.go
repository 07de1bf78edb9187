package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/semaphore"
)

// signal adds a few jobs to one of the queues.
func (l *load) signal(string) {
	key := anyQueue()
	o := l.ask("signal", key)
	var values []string
	for i := range 1 + rand.IntN(3) {
		values = append(values, valueOf(o.asked, l.source, o.n, i))
	}
	o.note(crashtest.Record{Event: crashtest.Signals, Values: values})
	ready, err := l.queues[key].Signal(l.ctx, values...)
	if err == nil {
		o.note(crashtest.Record{Event: crashtest.Signalled, Values: values})
	}
	o.ended(err)
	if ready > backlog {
		doze(200 * time.Millisecond)
	}
}

// consume works on a job.
func (l *load) consume(string) { l.work(jobs, time.Second) }

func (l *load) consumeOnce(string) { l.work(once, time.Second) }

// work waits for a job and is done with it or, if it may, now and then gives it back. It is
// false if there was none.
func (l *load) work(key string, patience time.Duration) bool {
	ctx, stop := context.WithTimeout(l.ctx, patience)
	defer stop()
	kind := "consume"
	if key == once {
		kind = "consume once"
	}
	o := l.ask(kind, key)
	job, err := l.queues[key].Wait(ctx)
	if err != nil {
		o.refused(err)
		return false
	}
	o.has(job)
	doze(10 * time.Millisecond)
	o.end(job, key == jobs && rand.IntN(10) == 0)
	return true
}

func (o *op) has(job *semaphore.Job) {
	o.note(crashtest.Record{Event: crashtest.Holds, Job: job.ID(), Value: job.Value, Fence: job.Fence(),
		Until: crashtest.ClockAt(job.Deadline())})
}

func (o *op) end(job *semaphore.Job, back bool) {
	o.note(crashtest.Record{Event: crashtest.Leaving, Return: back, Until: crashtest.ClockAt(job.Deadline())})
	end := job.Done
	if back {
		end = job.Return
	}
	o.ended(end(context.Background()))
}

func anyQueue() string {
	if rand.IntN(2) == 0 {
		return jobs
	}
	return once
}

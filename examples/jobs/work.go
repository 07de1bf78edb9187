package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redsem/redsem/examples/internal/exampleredis"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

const (
	jobs  = 12
	fatal = "parcel 4" // its first consumer is killed
)

// newQueue is the queue as every process uses it. A job whose consumer has died is
// delivered again after 2 seconds; one that lives may take longer.
func newQueue(url, name string) (q *semaphore.Queue, close func() error, err error) {
	pool := exampleredis.NewPool(url)
	q, err = semaphore.NewQueue(name, redigoadapter.New(pool), nil, semaphore.QueueSettings{
		Visibility: 2 * time.Second,
		AutoRenew:  true,
	})
	return q, pool.Close, err
}

// produce is what the producer does.
func produce(ctx context.Context, q *semaphore.Queue, tell func(event)) error {
	for n := range jobs {
		if _, err := q.Signal(ctx, fmt.Sprintf("parcel %d", n+1)); err != nil {
			return err
		}
	}
	tell(event{What: "signalled", Job: fmt.Sprintf("%d jobs", jobs)})
	return nil
}

// consume is what each consumer does, until ctx ends.
func consume(ctx context.Context, q *semaphore.Queue, tell func(event)) error {
	for {
		job, err := q.Wait(ctx)
		if err != nil {
			return err // ErrCanceled when ctx has ended
		}
		tell(event{"begins", job.Value, job.Deliveries()})
		if !work(ctx, job) {
			return job.Return(ctx) // for another consumer; it is sent though ctx has ended
		}
		switch err := job.Done(ctx); {
		case err == nil:
			tell(event{"did", job.Value, job.Deliveries()})
		case errors.Is(err, semaphore.ErrNotHeld):
			tell(event{"lost", job.Value, job.Deliveries()}) // another consumer has it now
		default:
			return err
		}
	}
}

// work says whether it came to its end.
func work(ctx context.Context, job *semaphore.Job) bool {
	end := time.After(300 * time.Millisecond)
	if job.Value == fatal && job.Deliveries() == 1 {
		end = nil // never, lest the one who kills us come too late
	}
	select {
	case <-end:
	case <-job.Context().Done(): // lost: stop at once, Done will say why
	case <-ctx.Done():
		return false
	}
	return true
}

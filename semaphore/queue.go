package semaphore

import (
	"context"
	"fmt"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter"
)

// Bounds of Signal.
const (
	maxJobs  = 10_000
	maxBytes = 64 << 20

	// slowestLink is the least that a link carries, bytes a second: Signal has time
	// for that.
	slowestLink = 256 << 10
)

// Queue is a handle on a queue of jobs in Redis: producers Signal jobs, consumers
// Wait for them, each first come, first served, over all processes. A job is a
// string of any bytes; equal ones are kept apart. It belongs to its consumer until
// Done; if the consumer dies, or takes longer than Visibility, it is delivered again.
// Jobs do not expire unless JobExpiration says so.
//
// Handles of one name, in one process or many, are handles on one queue. A name
// is either a queue's or a semaphore's: the other use gives ErrWrongKind. A Queue
// may be used by many goroutines at once, and has nothing to close.
type Queue struct {
	*engine
	jobs QueueSettings
}

// NewQueue makes a handle on the queue of that name, which may be any string but the
// empty one. It does no I/O. A nil logger is silent. Settings may be left out, as
// may each of their fields; there can be only one.
//
// Errors: ErrInvalidArgument for the name or the client, ErrInvalidSettings.
func NewQueue(name string, client redisadapter.Redis, log logger.Logger, settings ...QueueSettings) (*Queue, error) {
	set, err := oneOfQueue(settings)
	if err != nil {
		err = &Error{"new", name, ErrInvalidSettings, err}
	}
	e, err := newEngine(protocol.Queue, name, client, log, set.engine(), err)
	if err != nil {
		return nil, err
	}
	e.base.Once = set.AtMostOnce
	return &Queue{e, set}, nil
}

// Name is the name of the queue.
func (q *Queue) Name() string { return q.key }

// Settings are those of this handle, with the defaults filled in.
func (q *Queue) Settings() QueueSettings { return q.jobs }

// Signal adds jobs, behind those that are there: all of them at once, or none. It
// answers how many jobs are ready then, that is, without a consumer.
//
// Errors: ErrInvalidArgument for no job, more than 10,000, or more than 64 MiB;
// ErrRedis and others as of Lock. After ErrRedis, or if ctx has ended, the jobs may
// be in the queue or not.
func (q *Queue) Signal(ctx context.Context, jobs ...string) (ready int, err error) {
	bytes := 0
	for _, job := range jobs {
		bytes += len(job)
	}
	if len(jobs) < 1 || len(jobs) > maxJobs {
		return 0, &Error{"signal", q.key, ErrInvalidArgument, outOfBounds("the number of jobs", len(jobs), "from 1 to %d", maxJobs)}
	}
	if bytes > maxBytes {
		return 0, &Error{"signal", q.key, ErrInvalidArgument,
			outOfBounds("the size of the jobs", fmt.Sprintf("%d bytes", bytes), "at most %d", maxBytes)}
	}
	var n int64
	size := time.Duration(bytes) * time.Second / slowestLink
	err = q.once(ctx, "signal", size, func(ctx context.Context, steps protocol.Steps, call protocol.Call) (h protocol.Header, o protocol.Outcome, err error) {
		h, o, n, err = steps.Signal(ctx, call, q.jobs.JobExpiration, jobs)
		return h, o, err
	})
	if err != nil {
		return 0, err
	}
	if log := q.log.at(logger.Info); log != nil {
		log.Log(logger.Info, "jobs added", "jobs", len(jobs), "ready", n)
	}
	return int(n), nil
}

// Wait waits for a job as long as ctx lets it. The oldest job is delivered first,
// to whoever waits longest. With an error there is no job, and none is lost, unless
// Redis could not be reached and AtMostOnce is set.
//
// Errors: those of LockContext.
func (q *Queue) Wait(ctx context.Context) (*Job, error) {
	return q.receive(ctx, request{op: "wait"})
}

// TryWait is Wait that does not wait: ErrNotAvailable if no job is ready, or if
// others are waiting.
func (q *Queue) TryWait(ctx context.Context) (*Job, error) {
	return q.receive(ctx, request{op: "try wait", try: true})
}

func (q *Queue) receive(ctx context.Context, req request) (*Job, error) {
	req.permits, req.full = 1, true
	g, err := q.obtain(ctx, req)
	if err != nil {
		return nil, err
	}
	return &Job{Value: g.job.Content, permit: q.newPermit(ctx, g, 1), id: g.job.ID, deliveries: int(g.job.Deliveries)}, nil
}

// Len is how many jobs are ready, that is, without a consumer.
func (q *Queue) Len(ctx context.Context) (int, error) {
	ready, _, err := q.status(ctx, "len", "")
	return ready, err
}

// Delete removes the queue and all its jobs, those included that consumers work on:
// they find out when they are Done. Consumers that wait go on waiting in their order.
func (q *Queue) Delete(ctx context.Context) error { return q.remove(ctx) }

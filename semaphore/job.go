package semaphore

import (
	"context"
	"time"
)

// Job is a job that was delivered to a consumer, who works on it until Done or Return.
// It may be used by many goroutines at once.
//
// A job is delivered at least once: again if its consumer dies, or does not end it in
// time. Whoever must not do its work twice keeps the ID of what was done, or hands the
// Fence to the store that it writes to.
type Job struct {
	// Value is what Signal was given, unmodified.
	Value string

	permit     *Permit
	id         int64
	deliveries int
}

// Done ends the job: it is not delivered again. It is sent even if ctx has ended, and
// repeated for about ten seconds at most.
//
// Errors: ErrNotHeld if the job was done or returned before, or if its time was
// over, and then ErrLost too: another consumer has it, or will have it; ErrRedis if Redis
// could not be reached: it is delivered again then.
func (j *Job) Done(ctx context.Context) error {
	_, err := j.permit.give(ctx, "done", errDone, true)
	return err
}

// Return gives the job back: it is delivered again, to the next consumer, before all that
// were signalled later; unless its JobExpiration is over. Errors are those of Done.
func (j *Job) Return(ctx context.Context) error {
	_, err := j.permit.give(ctx, "return", errReturned, false)
	return err
}

// Refresh gives the consumer Visibility from now, unless it has more. ErrNotHeld if
// the job was ended or is lost.
func (j *Job) Refresh(ctx context.Context) error { return j.permit.Refresh(ctx) }

// ID tells the job from others of the queue, and is the same at every delivery. Jobs
// that were signalled later have greater ones.
func (j *Job) ID() int64 { return j.id }

// Deliveries is how often the job was delivered, this time included.
func (j *Job) Deliveries() int { return j.deliveries }

// Fence is a number that is greater than that of every delivery before this one.
func (j *Job) Fence() int64 { return j.permit.Fence() }

// Deadline is when the job is taken from this consumer unless it is extended, on the
// local clock: never later than Redis takes it.
func (j *Job) Deadline() time.Time { return j.permit.Deadline() }

// Context ends when the job is done, returned or lost; context.Cause matches ErrLost
// in the latter case. It has the values of the context that Wait was given, but does
// not end with it.
func (j *Job) Context() context.Context { return j.permit.Context() }

// Bind derives a context from ctx that ends also when the job is done, returned or
// lost: see Permit.Bind.
func (j *Job) Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc) {
	return j.permit.Bind(ctx)
}

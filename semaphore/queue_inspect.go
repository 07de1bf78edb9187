package semaphore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redsem/redsem/internal/protocol"
)

// QueueSnapshot is one consistent reading of a queue. All times are the server's.
type QueueSnapshot struct {
	Name   string
	Time   time.Time // of the reading
	Exists bool      // false: never used, or expired, or deleted

	ReadyCount    int          // of all jobs without a consumer
	Ready         []ReadyJob   // the 1,000 oldest of them, in their order
	WorkingCount  int          // of all jobs that consumers work on
	Working       []WorkingJob // the 1,000 of them whose leases end first, in this order
	ConsumerCount int          // of all that wait, those of dead processes included until their turn comes
	Consumers     []Waiter     // the 1,000 of them nearest to the head, in their order
}

// ReadyJob is a job that waits for a consumer.
type ReadyJob struct {
	ID         int64
	Since      time.Time // of its Signal
	Expires    time.Time // zero: never
	Deliveries int       // how often it was delivered before
	Bytes      int
}

// WorkingJob is a job that a consumer works on, or has just been granted.
type WorkingJob struct {
	ID         int64
	Owner      string // QueueSettings.Owner of the consumer
	Deliveries int    // 0: granted, and not yet delivered
	Fence      int64
	Since      time.Time // of the grant
	Expires    time.Time // end of the lease
}

// Inspect reads which jobs and consumers there are, in one go. It is bounded: of a
// huge queue the snapshot lists the first, and counts all.
func (q *Queue) Inspect(ctx context.Context) (QueueSnapshot, error) {
	r, err := q.reading(ctx, "inspect", inspectLimit)
	if err != nil {
		return QueueSnapshot{}, err
	}
	s := QueueSnapshot{
		Name: q.key, Time: time.UnixMilli(r.Server), Exists: r.Exists,
		ReadyCount: int(r.Free), WorkingCount: int(r.HolderCount), ConsumerCount: int(r.WaiterCount),
		Consumers: waitersIn(r),
	}
	for _, job := range r.Ready {
		ready := ReadyJob{ID: job.ID, Since: sinceNumber(job.ID, r), Deliveries: int(job.Deliveries), Bytes: int(job.Bytes)}
		if job.End != 0 {
			ready.Expires = time.UnixMilli(job.End)
		}
		s.Ready = append(s.Ready, ready)
	}
	for _, record := range r.Holders {
		id, deliveries, owner, ok := protocol.HeldJob(record.Owner)
		if ok {
			s.Working = append(s.Working, WorkingJob{
				ID: id, Owner: owner, Deliveries: int(deliveries), Fence: record.Fence,
				Since: time.UnixMilli(record.Since), Expires: time.UnixMilli(record.End),
			})
		}
	}
	return s, nil
}

// String is for people: the counts, then a line for each job and consumer.
func (s QueueSnapshot) String() string {
	var b strings.Builder
	if !s.Exists {
		fmt.Fprintf(&b, "%q: not in use\n", s.Name)
		return b.String()
	}
	fmt.Fprintf(&b, "%q: %s ready, %d worked on, %s waiting\n",
		s.Name, counted(s.ReadyCount, "job"), s.WorkingCount, counted(s.ConsumerCount, "consumer"))
	t := newTable(&b)
	for _, job := range s.Working {
		t.row("worked on", visible(job.Owner), "for "+brief(s.Time.Sub(job.Since)), "ends in "+brief(job.Expires.Sub(s.Time)),
			"delivery "+strconv.Itoa(job.Deliveries), "job "+strconv.FormatInt(job.ID, 10))
	}
	t.more(s.WorkingCount-len(s.Working), "worked on")
	for _, job := range s.Ready {
		columns := []string{"ready", counted(job.Bytes, "byte"), "for " + brief(s.Time.Sub(job.Since))}
		if !job.Expires.IsZero() {
			columns = append(columns, "expires in "+brief(job.Expires.Sub(s.Time)))
		}
		columns = append(columns, "delivered "+counted(job.Deliveries, "time"), "job "+strconv.FormatInt(job.ID, 10))
		t.row(columns...)
	}
	t.more(s.ReadyCount-len(s.Ready), "ready")
	t.waiters(s.Time, s.Consumers, func(Waiter) string { return "waits" })
	t.more(s.ConsumerCount-len(s.Consumers), "consumers")
	t.Flush()
	return b.String()
}

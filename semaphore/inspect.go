package semaphore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redsem/redsem/internal/protocol"
)

// inspectLimit is the most holders, and the most waiters, that a Snapshot lists.
const inspectLimit = 1000

// Snapshot is one consistent reading of a semaphore. All times are the server's.
type Snapshot struct {
	Key      string    // the binding key
	Time     time.Time // of the reading
	Exists   bool      // false: never used, or expired, or deleted
	Capacity int       // permits in all; of the settings if it does not exist
	Free     int       // permits that are free
	Held     int       // permits that are held; above Capacity for a while after Resize lowered it

	HolderCount int      // of all acquisitions that hold permits
	Holders     []Holder // the 1,000 of them whose leases end first, in this order
	WaiterCount int      // of all that wait, those of dead processes included until their turn comes
	Waiters     []Waiter // the 1,000 of them nearest to the head, in their order
}

// Holder is an acquisition that holds permits.
type Holder struct {
	Token   string
	Owner   string // Settings.Owner of who acquired it
	Permits int
	Fence   int64
	Since   time.Time // of the grant
	Expires time.Time // end of the lease
}

// Waiter is an acquisition that waits.
type Waiter struct {
	Owner    string
	Position int // from 1
	Permits  int
	Since    time.Time
	Alive    bool // its process has lately given a sign of life
}

// Inspect reads who holds and who waits, in one go. It is bounded: of a huge
// semaphore the snapshot lists the first, and counts all.
func (s *Semaphore) Inspect(ctx context.Context) (Snapshot, error) {
	r, err := s.reading(ctx, "inspect", inspectLimit)
	if err != nil {
		return Snapshot{}, err
	}
	snapshot := Snapshot{Key: s.key, Time: time.UnixMilli(r.Server), Exists: r.Exists}
	if !r.Exists {
		snapshot.Capacity = s.settings.MaxParallelResources
		snapshot.Free = snapshot.Capacity
		return snapshot, nil
	}
	snapshot.Capacity, snapshot.Free, snapshot.Held = int(r.Capacity), int(r.Free), int(r.Held)
	snapshot.HolderCount, snapshot.WaiterCount = int(r.HolderCount), int(r.WaiterCount)
	for _, record := range r.Holders {
		snapshot.Holders = append(snapshot.Holders, Holder{
			Token: record.Token, Owner: record.Owner, Permits: int(record.Permits), Fence: record.Fence,
			Since: time.UnixMilli(record.Since), Expires: time.UnixMilli(record.End),
		})
	}
	snapshot.Waiters = waitersIn(r)
	return snapshot, nil
}

func waitersIn(r protocol.Inspected) []Waiter {
	var waiters []Waiter
	for i, place := range r.Waiters {
		waiters = append(waiters, Waiter{
			Owner: place.Owner, Position: i + 1, Permits: place.Permits, Since: sinceNumber(place.Ticket, r), Alive: place.Alive,
		})
	}
	return waiters
}

// sinceNumber is when a sequence number was given: that is what it says, unless
// many were given in one µs or the clock was set back.
func sinceNumber(number int64, r protocol.Inspected) time.Time {
	return time.UnixMicro(min(number, r.Server*1000))
}

// reading has one made, with so many holders, waiters and jobs at most.
func (e *engine) reading(ctx context.Context, op string, limit int) (r protocol.Inspected, err error) {
	err = e.ask(ctx, op, func(ctx context.Context, steps protocol.Steps) (_ protocol.Header, err error) {
		r, err = steps.Inspect(ctx, limit)
		return r.Header, err
	})
	return r, err
}

// String is for people: the counts, then a line for each holder and waiter.
func (s Snapshot) String() string {
	var b strings.Builder
	if !s.Exists {
		fmt.Fprintf(&b, "%q: not in use, %s\n", s.Key, permits(s.Capacity))
		return b.String()
	}
	fmt.Fprintf(&b, "%q: %d of %s free, %d holding, %d waiting\n", s.Key, s.Free, permits(s.Capacity), s.HolderCount, s.WaiterCount)
	t := newTable(&b)
	for _, h := range s.Holders {
		t.row("holds", visible(h.Owner), permits(h.Permits), "for "+brief(s.Time.Sub(h.Since)),
			"ends in "+brief(h.Expires.Sub(s.Time)), "fence "+strconv.FormatInt(h.Fence, 10), "token "+visible(h.Token))
	}
	t.more(s.HolderCount-len(s.Holders), "holders")
	t.waiters(s.Time, s.Waiters, func(w Waiter) string { return permits(w.Permits) })
	t.more(s.WaiterCount-len(s.Waiters), "waiters")
	t.Flush()
	return b.String()
}

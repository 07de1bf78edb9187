package semaphore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
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
	fmt.Fprintf(&b, "%s: ", strconv.Quote(s.Key))
	if !s.Exists {
		fmt.Fprintf(&b, "not in use, %d permits\n", s.Capacity)
		return b.String()
	}
	fmt.Fprintf(&b, "%d of %d permits free, %d holding, %d waiting\n", s.Free, s.Capacity, s.HolderCount, s.WaiterCount)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, h := range s.Holders {
		fmt.Fprintf(w, "  holds\t%s\t%s\tfor %v\tuntil %v from now\ttoken %s\tfence %d\n",
			h.Owner, permits(h.Permits), brief(s.Time.Sub(h.Since)), brief(h.Expires.Sub(s.Time)), h.Token, h.Fence)
	}
	for _, v := range s.Waiters {
		dead := ""
		if !v.Alive {
			dead = "no sign of life"
		}
		fmt.Fprintf(w, "  %d.\t%s\t%s\tfor %v\t%s\n", v.Position, v.Owner, permits(v.Permits), brief(s.Time.Sub(v.Since)), dead)
	}
	w.Flush()
	if n := s.HolderCount - len(s.Holders); n > 0 {
		fmt.Fprintf(&b, "  and %d more holders\n", n)
	}
	if n := s.WaiterCount - len(s.Waiters); n > 0 {
		fmt.Fprintf(&b, "  and %d more waiters\n", n)
	}
	return b.String()
}

func permits(n int) string {
	if n == 1 {
		return "1 permit"
	}
	return strconv.Itoa(n) + " permits"
}

func brief(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

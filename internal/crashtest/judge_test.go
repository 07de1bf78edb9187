package crashtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// awaitAllFree waits until all permits are free, and nobody is in the queue.
func awaitAllFree(ctx context.Context, client redisadapter.Redis, g *target) error {
	s, err := semaphore.New(g.key, client, nil, g.part("").Settings)
	if err != nil {
		return err
	}
	for {
		snapshot, err := s.Inspect(ctx)
		if err != nil {
			return err
		}
		free, err := s.GetNumAvailableResources()
		if err != nil {
			return err
		}
		if free == g.capacity && snapshot.WaiterCount == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d permits are free: %v", free, g.capacity, snapshot)
		}
	}
}

// drain consumes jobs until there are none.
func drain(ctx context.Context, client redisadapter.Redis, g *target) (l life, err error) {
	q, err := semaphore.NewQueue(g.key, client, nil, g.part("").Queue)
	if err != nil {
		return l, err
	}
	l.role = "drain"
	for n := int64(1); ; n++ {
		asked := Record{At: Clock(), Event: Asked, Op: n}
		job, err := q.TryWait(ctx)
		if errors.Is(err, semaphore.ErrNotAvailable) {
			s, err := q.Inspect(ctx)
			if err != nil || s.ReadyCount+s.WorkingCount+s.ConsumerCount == 0 {
				return l, err
			}
			select {
			case <-time.After(20 * time.Millisecond):
				continue
			case <-ctx.Done():
				return l, fmt.Errorf("jobs are left: %v", s)
			}
		}
		if err != nil {
			return l, err
		}
		l.records = append(l.records, asked,
			Record{At: Clock(), Event: Holds, Op: n, Job: job.ID(), Value: job.Value, Fence: job.Fence(), Permits: 1, Until: ClockAt(job.Deadline())},
			Record{At: Clock(), Event: Leaving, Op: n})
		if err := job.Done(ctx); err != nil {
			return l, err
		}
		l.records = append(l.records, Record{At: Clock(), Event: Left, Op: n})
	}
}

// figures are what was measured of a kind of keys.
type figures struct {
	asked, held, holders int // operations; holders that were killed
	outcomes             map[Event]int
	queued, turns        int // tokens seen in the queue; those that may have lost a turn
	blind                int
	first, all           []time.Duration // recoveries: by a head that lived; any
}

// String is for the log of the test.
func (f *figures) String() string {
	return fmt.Sprintf("%d of %d operations held, %d killed as holders, %v; %d seen in the queue, %d may have lost a turn, blind %d times\n"+
		"from the end of the lease to the next grant: head alive: %s; all: %s",
		f.held, f.asked, f.holders, f.outcomes, f.queued, f.turns, f.blind, spread(f.first), spread(f.all))
}

// judge checks all that is known of a key.
func judge(t *testing.T, g *target, lives []life, stop int64, f *figures) {
	all, w := operations(lives), g.watch
	report(t, g.key, "readings", w.wrong)
	report(t, g.key, "outcomes", checkOutcomes(all))
	report(t, g.key, "fences", checkFences(all))
	report(t, g.key, "order", checkOrder(all, w))
	if g.queue() {
		report(t, g.key, "jobs", checkJobs(lives, all, g.once))
		report(t, g.key, "order of jobs", checkJobOrder(all, w, stop/1000+w.offset))
	} else {
		report(t, g.key, "capacity", checkCapacity(all, g.capacity))
	}
	found := recoveries(lives, all, w)
	report(t, g.key, "recovery", checkRecoveries(found))
	for _, r := range found {
		f.all = append(f.all, r.late)
		if r.first {
			f.first = append(f.first, r.late)
		}
	}
	f.blind += len(w.blind)
	for _, o := range all {
		f.asked++
		if o.holds != 0 {
			f.held++
		}
		if o.outcome != "" {
			f.outcomes[o.outcome]++
		} else if o.holds != 0 {
			f.holders++
		}
	}
	for _, s := range w.sights {
		if s.ticket != 0 {
			f.queued++
			if fence := s.lastFence(); fence != 0 && w.lostTurn(s, fence) {
				f.turns++
			}
		}
	}
}

func report(t *testing.T, key, check string, wrong complaints) {
	t.Helper()
	if len(wrong) > 0 {
		t.Errorf("seed %d, key %q, %s: %v", *seed, key, check, wrong)
	}
}

package main

import (
	"fmt"

	"github.com/redsem/redsem/internal/crashtest"
)

// ledger is what is known of the jobs of a queue.
type ledger struct {
	open  map[string]*job // by value: signalled, and not surely done
	done  map[string]job  // lately
	ring  []string        // the values of done, the oldest first
	floor int64           // jobs that were signalled before have been lost, or not
}

// job is what is known of one.
type job struct {
	confirmed bool  // Signal has said so
	maybe     bool  // it may be done: a Done was not answered
	delivered int   // times; of a queue that delivers at most once
	fence     int64 // of the delivery that was done
}

// maxDone are remembered.
const maxDone = 5_000

func newLedger() *ledger {
	return &ledger{open: make(map[string]*job), done: make(map[string]job)}
}

func (q *ledger) signals(values []string) {
	for _, v := range values {
		if signalledAt(v) >= q.floor {
			q.open[v] = &job{}
		}
	}
}

func (q *ledger) confirmed(values []string) {
	for _, v := range values {
		if b := q.open[v]; b != nil {
			b.confirmed = true
		}
	}
}

// delivered judges a delivery.
func (q *ledger) delivered(j *judge, r record, asked int64) {
	if signalledAt(r.Value) < q.floor {
		return
	}
	b := q.open[r.Value]
	if b == nil {
		d, ok := q.done[r.Value]
		switch {
		case !ok:
			j.blame(r.At, "%s: job %s was delivered, which nobody signalled, or long after its Done", r.Key, r.Value)
		case r.Fence > d.fence:
			j.blame(r.At, "%s: job %s was delivered with fence %d after its Done with fence %d", r.Key, r.Value, r.Fence, d.fence)
		}
		return
	}
	if b.delivered++; b.delivered > 1 && r.Key == once {
		j.blame(r.At, "%s: job %s was delivered %d times, now with fence %d", r.Key, r.Value, b.delivered, r.Fence)
	}
}

// ended judges the end of a delivery; the event of r is died if the consumer is.
func (q *ledger) ended(j *judge, o *operation, r record) {
	b := q.open[o.Value]
	switch {
	case b == nil || o.Return:
	case r.Event == crashtest.Left:
		delete(q.open, o.Value)
		b.fence = o.hold.fence
		q.done[o.Value] = *b
		if q.ring = append(q.ring, o.Value); len(q.ring) > maxDone {
			delete(q.done, q.ring[0])
			q.ring = q.ring[1:]
		}
	case r.Event != crashtest.Lost && o.hold.left:
		b.maybe = true
	}
}

// lost forgets the jobs that were signalled before the end of a loss.
func (q *ledger) lost(l loss) {
	q.floor = l.to
	for v := range q.open {
		if signalledAt(v) < l.to {
			delete(q.open, v)
		}
	}
}

// missing are the jobs that were to be done and are gone, when the queue is empty.
func (q *ledger) missing() (all []string) {
	for v, b := range q.open {
		if b.confirmed && !b.maybe {
			all = append(all, fmt.Sprintf("%s, delivered %d times", v, b.delivered))
		}
	}
	return all
}

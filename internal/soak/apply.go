package main

import (
	"slices"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
)

// waitBound is the longest that an operation may take while the server is well:
// a dozen leases of dead holders and more, one after the other.
const waitBound = time.Minute

// apply judges a record; all that are earlier were judged before. The caller holds mu.
func (j *judge) apply(r record) {
	id := [2]int64{int64(r.Source), r.Op}
	o := j.operations[id]
	switch r.Event {
	case died:
		j.buried(r)
		return
	case crashtest.Asked:
		j.operations[id] = &operation{record: r}
		return
	}
	if o == nil {
		j.blame(r.At, "%s of %s: a record %q of an operation that did not begin", r.Kind, r.Key, r.Event)
		return
	}
	switch r.Event {
	case crashtest.Holds:
		j.answered(o, r.At)
		o.hold = &hold{from: r.At, until: r.Until, end: r.Until, permits: r.Permits, fence: r.Fence, asked: o.At}
		if q := j.queues[r.Key]; q != nil {
			o.Value = r.Value
			q.delivered(j, r, o.At)
		} else {
			j.rooms[r.Key].fences = append(j.rooms[r.Key].fences, *o.hold)
			if r.Kind != "try" && r.Kind != "cancel" {
				if j.waits.add(time.Duration(r.At - o.At)) {
					j.longest = violation{r.At, o.Kind + " of " + o.Key}
				}
			}
		}
	case crashtest.Renewed:
		o.hold.until = max(o.hold.until, r.Until)
	case crashtest.Leaving:
		o.hold.until = max(o.hold.until, r.Until)
		o.hold.end = min(r.At, o.hold.until)
		o.hold.left, o.Return = true, r.Return
	case crashtest.Signals:
		o.Values = r.Values
		j.queues[r.Key].signals(r.Values)
	case crashtest.Signalled:
		j.queues[r.Key].confirmed(r.Values)
	default:
		j.counts[o.Kind]++
		j.closed(o, r)
		delete(j.operations, id)
	}
}

// answered judges how long an operation waited for its first answer.
func (j *judge) answered(o *operation, at int64) {
	if d := j.waited(o.At, at); d > waitBound {
		j.blame(at, "%s of %s was answered after %v in which the server was well, of %v in all", o.Kind, o.Key,
			d.Round(time.Millisecond), time.Duration(at-o.At).Round(time.Millisecond))
	}
}

// closed judges the end of an operation.
func (j *judge) closed(o *operation, r record) {
	if r.Event != crashtest.Left {
		j.errors[r.Class]++
		if !mayEnd(o.Kind, o.Key, r.Class) {
			j.blame(r.At, "%s of %s must not end with this: %s", o.Kind, o.Key, r.Err)
		}
	}
	if o.hold == nil {
		j.answered(o, r.At)
		return
	}
	if r.Event == crashtest.Lost && r.At < o.hold.until && !j.mayLose(o, r.At) {
		j.blame(r.At, "%s of %s lost what it held %v before the end of the lease: %s", o.Kind, o.Key,
			time.Duration(o.hold.until-r.At).Round(time.Millisecond), r.Err)
	}
	if q := j.queues[o.Key]; q != nil {
		q.ended(j, o, r)
		return
	}
	j.rooms[o.Key].add(*o.hold, j.losses)
}

// mayLose says whether something happened during an operation that takes leases away.
func (j *judge) mayLose(o *operation, until int64) bool {
	if at := j.harm[o.Key]; at != 0 && at >= o.At {
		return true
	}
	return slices.ContainsFunc(j.losses, func(l loss) bool { return l.to >= o.At && l.from <= until })
}

// buried ends the operations of a child that is dead: what it held is protected until
// the end of the lease.
func (j *judge) buried(r record) {
	for id, o := range j.operations {
		if o.Source != r.Source {
			continue
		}
		if q := j.queues[o.Key]; q != nil && o.hold != nil {
			q.ended(j, o, r)
		} else if o.hold != nil {
			if !o.hold.left {
				o.hold.end = o.hold.until
			}
			j.rooms[o.Key].add(*o.hold, j.losses)
		}
		delete(j.operations, id)
	}
}

// stuck accuses the operations that have not ended, when all should have.
func (j *judge) stuck() {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := crashtest.Clock()
	for _, o := range j.operations {
		j.blame(now, "%s of %s has not ended after %v, all faults being over", o.Kind, o.Key, time.Duration(now-o.At).Round(time.Millisecond))
	}
}

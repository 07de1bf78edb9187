package main

import (
	"fmt"
	"time"
)

// visit is what the records say about one turn of a worker: from the request for
// a permit to its end. Times are zero where it did not come so far.
type visit struct {
	worker string
	pkg    string

	asked    time.Duration
	queued   time.Duration
	got      time.Duration
	deadline time.Duration // last known end of the lease
	leaving  time.Duration
	ended    time.Duration // left or lost

	ticket int64 // 0 if the permit was free
	fence  int64
	digest string
	left   bool // to the end; else it was lost, or the worker killed over it
}

// arrival is the number that Redis drew when the request arrived, the ticket,
// or the fence if the permit was free: both come from one sequence.
func (v visit) arrival() int64 {
	if v.ticket != 0 {
		return v.ticket
	}
	return v.fence
}

// answered is a moment at which Redis has certainly dealt with the request.
func (v visit) answered() time.Duration {
	if v.queued != 0 {
		return v.queued
	}
	return v.got
}

// until is the end of the time in which the worker certainly held the permit.
// If it died, or lost its lease, that is the end of its lease, as far as that is
// known: it may have been renewed in the last moment.
func (v visit) until() time.Duration {
	if v.left {
		return v.leaving
	}
	return v.deadline
}

// visitsOf makes visits out of the records of all workers. Those of each worker are
// in their order.
func visitsOf(records []record) ([]visit, error) {
	open := make(map[string]*visit)
	var all []*visit
	for _, r := range records {
		v := open[r.Worker]
		switch r.Event {
		case eventStarted, eventSilence, eventTrouble:
			continue
		case eventAsked:
			if v == nil {
				v = &visit{worker: r.Worker, pkg: r.Package}
				open[r.Worker] = v
				all = append(all, v)
			}
		}
		if v == nil || v.pkg != r.Package || !v.take(r) {
			return nil, fmt.Errorf("%s recorded %q for %s out of turn", r.Worker, r.Event, r.Package)
		}
		if v.ended != 0 {
			open[r.Worker] = nil
		}
	}
	visits := make([]visit, len(all))
	for i, v := range all {
		visits[i] = *v
	}
	return visits, nil
}

// take adds a record, and says whether it may come now.
func (v *visit) take(r record) bool {
	switch r.Event {
	case eventAsked: // more than once if Redis could not be reached: the last counts
		v.asked, v.queued, v.ticket = r.At, 0, 0
		return v.got == 0
	case eventQueued: // more than once if the library had to ask anew: the last counts
		v.queued, v.ticket = r.At, r.Ticket
		return v.got == 0
	case eventGot:
		first := v.got == 0
		v.got, v.fence, v.deadline = r.At, r.Fence, r.Deadline
		return first
	case eventRenewed:
		v.deadline = r.Deadline
		return v.got != 0 && v.leaving == 0
	case eventLeaving:
		first := v.leaving == 0
		v.leaving, v.digest = r.At, r.Digest
		return v.got != 0 && first
	case eventLeft:
		v.ended, v.left = r.At, true
		return v.leaving != 0
	case eventLost:
		v.ended = r.At
		return v.got != 0
	}
	return false
}

// gap is a time in which a worker heard nothing from Redis.
type gap struct {
	worker   string
	from, to time.Duration
}

// gapsOf finds the gaps in the records of all workers.
func gapsOf(records []record) []gap {
	var gaps []gap
	for _, r := range records {
		if r.Event == eventSilence {
			gaps = append(gaps, gap{r.Worker, r.Since, r.At})
		}
	}
	return gaps
}

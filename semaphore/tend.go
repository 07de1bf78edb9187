package semaphore

import (
	"context"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

const (
	// tendBeat is how often a process that waits says that it lives.
	tendBeat = time.Second

	// tendTimeout bounds one tend: a connection that hangs must not cost the
	// process its places.
	tendTimeout = 1500 * time.Millisecond

	// tendSpacing is the shortest time from one tend to the next.
	tendSpacing = 2 * time.Millisecond

	// tendBatch is the most of each kind that one call brings.
	tendBatch = 500

	// tendLook is how many waiters each beat looks for at the head of the
	// line, and as many further back.
	tendLook = 64

	// tendAhead is how much before its time a lease is renewed if a call is
	// made anyway.
	tendAhead = 50 * time.Millisecond

	// spreadStep and spreadMost say how long after the end of a lease a
	// process calls: a step for each place before its first waiter.
	spreadStep = 2 * time.Millisecond
	spreadMost = time.Second
)

// tend calls Redis whenever something is due, until nothing is.
func (h *hub) tend() {
	defer live.exit(h)
	var earliest time.Time // not before: a call has just been made, or failed
	var backoff time.Duration
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, ok := h.due(earliest)
		if !ok {
			return
		}
		timer.Reset(due.Sub(protocol.Now()))
		select {
		case <-h.wake:
			continue
		case <-timer.C:
		}
		if err := h.tendOnce(); err != nil {
			backoff = min(max(2*backoff, 10*time.Millisecond), tendBeat)
			earliest = protocol.Now().Add(backoff)
			continue
		}
		backoff = 0
		earliest = protocol.Now().Add(tendSpacing)
	}
}

// due says when to tend next, but not before earliest. It is false if there is
// nothing left to tend: then the goroutine has to end.
func (h *hub) due(earliest time.Time) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := protocol.Now()
	due := now.Add(tendBeat)
	sooner := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	waiting := h.line.Len() > 0
	leaving := false // a leave that has not been given up
	for _, l := range h.leaving {
		if now.Before(l.until) || waiting {
			leaving = true
			sooner(l.due)
		}
	}
	lingering := h.listening && now.Sub(h.emptied) < linger
	if !waiting && !lingering && len(h.leases) == 0 && !leaving && !h.more {
		h.tending = false
		return now, false
	}
	if h.more || waiting && h.sweep || h.lacking > 0 {
		sooner(now)
	}
	if waiting {
		sooner(h.beat)
		if !h.nextEnd.IsZero() {
			sooner(h.nextEnd.Add(spread(h.places)))
		}
	}
	for _, l := range h.leases {
		sooner(l.due)
	}
	if due.Before(earliest) {
		due = earliest
	}
	h.planned = due
	return due, true
}

// spread says how long after the end of a lease a process with so many places
// before it calls: the nearest at once, the others one after the other, in case
// those before them are dead.
func spread(places int64) time.Duration {
	if places == 0 {
		return 0
	}
	d := time.Duration(min(places, int64(spreadMost/spreadStep))) * spreadStep
	return d + protocol.Jitter(d)/4
}

// round is one call of tend: what it says, and on whose behalf.
type round struct {
	protocol.Tending
	steps     protocol.Steps
	due       bool          // a call is due even if there is nothing to say
	timeout   time.Duration // of the call
	renewing  []*lease
	leavers   []*leaver
	requeuing []*waiter
	looking   []*waiter
}

// tendOnce makes one call, and sees to what the answer says.
func (h *hub) tendOnce() error {
	r := h.plan(protocol.Now())
	if !r.Waiting && len(r.renewing) == 0 && len(r.leavers) == 0 && !r.due {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	answer, err := r.steps.Tend(ctx, r.Tending)
	if err != nil {
		h.tendFailed(r, err)
		return err
	}
	h.left(r.leavers)
	h.heard(answer.Header)
	h.renewed(r, answer)
	h.looked(r, answer)
	return nil
}

// plan collects what there is to say now.
func (h *hub) plan(now time.Time) round {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := round{steps: h.steps, due: h.more, timeout: tendTimeout}
	r.VoidAfter = h.clock.VoidAfter(now, tendTimeout+time.Second)
	h.more = false
	r.Waiting = h.line.Len() > 0
	for _, l := range h.leases {
		r.timeout = min(r.timeout, l.Lease/3) // in time to try again, for each of them
		if len(r.renewing) < tendBatch && l.due.Before(now.Add(tendAhead)) {
			r.renewing = append(r.renewing, l)
			r.Renew = append(r.Renew, l.Renewal)
		}
	}
	r.leavers = h.leavers(now)
	r.Leave = waitersOf(r.leavers)
	look := h.lookFor()
	for at := h.line.Front(); at != nil; at = at.Next() {
		w := at.Value.(*waiter)
		if w.missing && len(r.requeuing) < tendBatch {
			r.requeuing = append(r.requeuing, w)
			r.Requeue = append(r.Requeue, protocol.Queueing{Waiter: w.Waiter, Ticket: w.ticket})
		} else if !w.missing && look(w) {
			r.looking = append(r.looking, w)
			r.Look = append(r.Look, w.Waiter)
		}
	}
	return r
}

// lookFor chooses the waiters to look for, when shown all in their order: a few
// at the head of the line and, from beat to beat, a few further back; in a sweep
// all, a batch at a time. The caller holds mu.
func (h *hub) lookFor() func(*waiter) bool {
	if h.sweep && h.line.Len() > 0 {
		from, n := h.swept, 0
		h.sweep = false // unless there are more than fit
		return func(w *waiter) bool {
			if w.ticket <= from || n > tendBatch {
				return false
			}
			if n++; n > tendBatch {
				h.sweep = true
				return false
			}
			h.swept = w.ticket
			return true
		}
	}
	from, head, back := h.cursor, 0, 0
	h.cursor = 0 // unless there are more than fit
	return func(w *waiter) bool {
		if head < tendLook {
			head++
			return true
		}
		if w.ticket <= from || back > tendLook {
			return false
		}
		if back++; back > tendLook {
			return false
		}
		h.cursor = w.ticket
		return true
	}
}

// tendFailed notes why. What the server will refuse next time too ends all
// waits.
func (h *hub) tendFailed(r round, err error) {
	h.mu.Lock()
	if ambiguous(err) { // those who leave, leave once more when it can't come any more
		for _, w := range r.requeuing {
			if again := protocol.Now().Add(tendTimeout + time.Second); again.After(w.again) {
				w.again = again
			}
			if w.gone { // its leave may have come before
				h.leaving = append(h.leaving, newLeaver(w))
			}
		}
	}
	first := h.trouble == nil
	h.trouble = err
	h.giveUp(err)
	h.mu.Unlock()
	if log := h.log.at(logger.Error); log != nil && first {
		log.Log(logger.Error, "tending failed, will be repeated", "error", err)
	}
	if permanent(err) {
		h.fail(err)
	}
}

// renewed tells the permits what has become of their leases.
func (h *hub) renewed(r round, answer protocol.Tended) {
	for i, l := range r.renewing {
		if answer.Ends[i] == 0 {
			h.drop(l.Token)
			l.permit.lose(ErrNotHeld)
			continue
		}
		l.permit.extend(answer.Deadline(answer.Ends[i]))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range r.renewing {
		l.due = protocol.Now().Add(l.again)
		if l.again == 0 && h.leases[l.Token] == l {
			delete(h.leases, l.Token)
		}
	}
}

// looked notes what the answer says of the queue.
func (h *hub) looked(r round, answer protocol.Tended) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beat = protocol.Now().Add(tendBeat)
	h.nextEnd = time.Time{}
	if answer.NextEnd != 0 {
		h.nextEnd = answer.Deadline(answer.NextEnd).Add(tendSpacing)
	}
	for _, w := range r.requeuing {
		h.setMissing(w, false)
		if w.gone { // this call may have overtaken its leave
			h.leaving = append(h.leaving, newLeaver(w))
		}
	}
	lost := false
	for i, found := range answer.Found {
		w := r.looking[i]
		if found == 0 && h.waiters[w.Token] == w {
			h.setMissing(w, true)
			lost = true
		}
	}
	if lost && !h.sweep || h.trouble != nil {
		h.suspect()
	}
	h.trouble = nil
	h.refuse(answer.Capacity)
	if first := h.line.Front(); first != nil && len(r.looking) > 0 && first.Value.(*waiter) == r.looking[0] {
		h.places = answer.Places
	}
}

// refuse ends the waits for more permits than there are. The caller holds mu.
func (h *hub) refuse(capacity int64) {
	for at := h.line.Front(); at != nil && capacity > 0; {
		w := at.Value.(*waiter)
		at = at.Next()
		if int64(w.Permits) > capacity {
			h.remove(w)
			w.result <- delivery{err: ErrExceedsCapacity, capacity: capacity}
		}
	}
}

// keep has a lease renewed by the tend goroutine, until drop.
func (h *hub) keep(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases[l.Token] = l
	h.start()
	h.planFor(l.due)
}

// drop ends the renewal of a lease.
func (h *hub) drop(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leases, token)
	if len(h.leases) == 0 {
		h.rest()
	}
}

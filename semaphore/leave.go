package semaphore

import (
	"context"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

const (
	// leaveGrace is how long a caller that gives up waits for Redis to hear of
	// it.
	leaveGrace = 100 * time.Millisecond

	// leavePatience is how long the goroutines go on for a leave that can't be
	// sent. After that it goes with the tends for others; if there are none, the
	// process's places end with its client id.
	leavePatience = protocol.ClaimWindow + time.Second
)

// leaver is a waiter that has gone, until Redis has confirmed its leave.
type leaver struct {
	protocol.Waiter
	due   time.Time     // when to send it with a tend; guarded by hub.mu
	until time.Time     // when to give up; guarded by hub.mu
	again time.Time     // send it once more then: its acquire may come late; guarded by hub.mu
	sent  chan struct{} // closed when Redis has confirmed for the first time
	heard bool          // sent is closed; guarded by hub.mu
}

// newLeaver makes one of a waiter. The caller holds mu.
func newLeaver(w *waiter) *leaver {
	now := protocol.Now()
	return &leaver{Waiter: w.Waiter, due: now, until: now.Add(leavePatience), again: w.again, sent: make(chan struct{})}
}

// abandon ends the wait of a waiter, whatever has become of it in Redis: its place
// is given up, and a permit that was granted meanwhile goes to the next. It
// waits a moment for Redis to confirm, and leaves the rest to the hub.
func (h *hub) abandon(w *waiter) {
	h.mu.Lock()
	l := newLeaver(w)
	l.due = l.due.Add(tendBeat) // sendLeaves comes first
	h.remove(w)
	w.gone = true
	h.leaving = append(h.leaving, l)
	h.fresh = append(h.fresh, l)
	first := !h.flushing
	h.flushing = true
	h.mu.Unlock()
	if first {
		live.hold(h)
		go h.sendLeaves()
	}
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case <-l.sent:
	case <-grace.C:
	}
}

// forget gives up a waiter whose acquire is over: done says that it was granted or
// queued. Nothing is to be sent if it was not, and can't be any more.
func (h *hub) forget(w *waiter, done bool) {
	if !done && w.again.IsZero() {
		h.settled(w)
		return
	}
	h.abandon(w)
}

// sendLeaves sends the fresh leaves, many in one call, until there are none left. What
// can't be sent is repeated with the next tends.
func (h *hub) sendLeaves() {
	defer live.exit(h)
	for {
		h.mu.Lock()
		batch := h.fresh[:min(tendBatch, len(h.fresh))]
		h.fresh = h.fresh[len(batch):]
		steps := h.steps
		if len(batch) == 0 {
			h.fresh = nil
			h.flushing = false
			h.startTend() // for those that are due later
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), attemptTimeout)
		header, err := steps.Leave(ctx, waitersOf(batch))
		cancel()
		if err != nil {
			if log := h.log.at(logger.Error); log != nil {
				log.Log(logger.Error, "leave failed, will be repeated", "waiters", len(batch), "error", err)
			}
			h.mu.Lock()
			h.flushing = false
			h.fresh = nil
			for _, l := range h.leaving {
				if !l.heard { // else it is sent once more, when its time has come
					l.due = protocol.Now()
				}
			}
			h.giveUp(err)
			h.suspect()
			h.startTend()
			h.mu.Unlock()
			return
		}
		h.left(batch)
		h.heard(header)
	}
}

// startTend runs the tend goroutine if there are leaves for it. The caller holds mu
// and a reference.
func (h *hub) startTend() {
	if len(h.leaving) > 0 {
		h.start()
		h.nudge()
	}
}

// leavers are those due now, a batch at most. The caller holds mu.
func (h *hub) leavers(now time.Time) []*leaver {
	var batch []*leaver
	for _, l := range h.leaving {
		if len(batch) < tendBatch && !l.due.After(now) {
			batch = append(batch, l)
		}
	}
	return batch
}

// giveUp makes the goroutines not go on for leaves that Redis will refuse again.
// The caller holds mu.
func (h *hub) giveUp(err error) {
	for _, l := range h.leaving {
		if permanent(err) {
			l.until = protocol.Now()
		}
	}
}

// gaveUp says that a leave was not confirmed in time. The caller holds mu.
func (h *hub) gaveUp(now time.Time) bool {
	for _, l := range h.leaving {
		if now.After(l.until) {
			return true
		}
	}
	return false
}

// left notes that Redis has confirmed leaves.
func (h *hub) left(confirmed []*leaver) {
	done := make(map[*leaver]bool, len(confirmed))
	for _, l := range confirmed {
		done[l] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := protocol.Now()
	rest := make([]*leaver, 0, len(h.leaving))
	for _, l := range h.leaving {
		if done[l] && l.heard && l.due.After(now) {
			done[l] = false // a copy, of before: it is still to be sent once more
		}
		if done[l] && !l.heard {
			l.heard = true
			close(l.sent)
		}
		if done[l] && l.again.After(now) {
			l.due, l.until, l.again = l.again, l.again.Add(leavePatience), time.Time{}
			done[l] = false
		}
		if !done[l] {
			rest = append(rest, l)
		}
	}
	h.leaving = rest
	if len(rest) == 0 {
		h.nudge() // tend may end
	}
}

func waitersOf(leavers []*leaver) []protocol.Waiter {
	list := make([]protocol.Waiter, len(leavers))
	for i, l := range leavers {
		list[i] = l.Waiter
	}
	return list
}

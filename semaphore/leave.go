package semaphore

import (
	"context"
	"errors"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

const (
	// leaveGrace is how long a caller that gives up waits for Redis to hear of
	// it.
	leaveGrace = 100 * time.Millisecond

	// leavePatience is how long a leave is repeated. By then the process, if
	// it could not tend either, is taken for dead, and its places are gone.
	leavePatience = protocol.ClaimWindow + time.Second
)

// leaver is a waiter that has gone.
type leaver struct {
	protocol.Waiter
	until time.Time     // when to give up
	sent  chan struct{} // closed when Redis has confirmed
}

func newLeaver(w *waiter) *leaver {
	return &leaver{Waiter: w.Waiter, until: protocol.Now().Add(leavePatience), sent: make(chan struct{})}
}

// abandon ends the wait of a waiter, whatever has become of it in Redis: its place
// is given up, and a permit that was granted meanwhile goes to the next. It
// waits a moment for Redis to confirm, and leaves the rest to the hub.
func (h *hub) abandon(w *waiter) {
	l := newLeaver(w)
	h.mu.Lock()
	h.remove(w)
	w.gone = true
	h.leaving = append(h.leaving, l)
	first := len(h.leaving) == 1
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

// forget abandons a waiter after its acquire, unless nothing of it can have come
// to Redis, or nothing was done there.
func (h *hub) forget(w *waiter, err error) {
	var unsent unsentError
	if errors.As(err, &unsent) || permanent(err) {
		h.settled(w)
		return
	}
	h.abandon(w)
}

// sendLeaves sends the leaves, many in one call, until there are none left. What
// can't be sent is repeated with the next tends.
func (h *hub) sendLeaves() {
	defer live.exit(h)
	for {
		h.mu.Lock()
		batch := h.leaving[:min(len(h.leaving), tendBatch):min(len(h.leaving), tendBatch)]
		h.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), attemptTimeout)
		header, err := h.steps.Leave(ctx, waitersOf(batch))
		cancel()
		if err != nil {
			if log := h.log.at(logger.Error); log != nil {
				log.Log(logger.Error, "leave failed", "waiters", len(batch), "error", err)
			}
			h.leaveLater(err)
			return
		}
		h.left(batch)
		h.heard(header)
	}
}

// leaveLater has the next tends repeat the leaves, unless Redis will refuse
// them then too.
func (h *hub) leaveLater(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if permanent(err) {
		h.leaving = nil
		return
	}
	h.start()
	h.nudge()
}

// left notes that Redis has confirmed leaves.
func (h *hub) left(done []*leaver) {
	gone := make(map[*leaver]bool, len(done))
	for _, l := range done {
		gone[l] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := make([]*leaver, 0, len(h.leaving))
	for _, l := range h.leaving {
		if gone[l] {
			close(l.sent)
		} else {
			rest = append(rest, l)
		}
	}
	h.leaving = rest
}

func waitersOf(leavers []*leaver) []protocol.Waiter {
	list := make([]protocol.Waiter, len(leavers))
	for i, l := range leavers {
		list[i] = l.Waiter
	}
	return list
}

package semaphore

import (
	"context"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
)

// claim extends the grants of one message to their full leases, in one call, for
// waiters whose tokens must stay good even if the process ends the next instant. That
// of a queue fetches the job of one grant as well.
// It is complete when the first waiter gets its delivery; the first to confirm has
// the call made, the others wait for its answer too.
type claim struct {
	hub      *hub
	renewals []protocol.Renewal
	atMost   bool // once is the job delivered

	once      sync.Once
	done      chan struct{}        // closed when the call is over
	deadlines map[string]time.Time // of the tokens that hold; read after done
	job       protocol.Job         // read after done
}

func newClaim(h *hub) *claim { return &claim{hub: h, done: make(chan struct{})} }

func (c *claim) add(w *waiter) {
	c.renewals = append(c.renewals, protocol.Renewal{Token: w.Token, Lease: w.Lease})
	c.atMost = w.atMost
}

// start has the call made. The caller holds a reference to the hub.
func (c *claim) start() {
	c.once.Do(func() {
		live.hold(c.hub)
		go c.send() // ends within the claim window, but for large jobs
	})
}

// deadline is that of a token, local time, after done; false if it does not hold, or
// if that could not be learnt: then its waiter must go on waiting.
func (c *claim) deadline(token string) (time.Time, bool) {
	deadline, ok := c.deadlines[token]
	return deadline, ok && protocol.Now().Before(deadline)
}

func (c *claim) send() {
	h := c.hub
	defer live.exit(h)
	defer close(c.done)
	steps := h.current()
	steps.Process, steps.Once = h.process(), c.atMost
	var header protocol.Header
	var ends []int64
	limit := protocol.ClaimWindow
	if steps.Kind == protocol.Queue {
		limit += 3 * h.timeout() // there may be a second attempt, of twice the time
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := h.carry(ctx, protocol.ClaimWindow, 0, func(ctx context.Context) (err error) {
		if steps.Kind == protocol.Queue {
			ends = make([]int64, 1)
			header, ends[0], c.job, err = steps.Fetch(ctx, c.renewals[0].Token, c.renewals[0].Lease)
		} else {
			header, ends, err = steps.Renew(ctx, c.renewals)
		}
		return err
	})
	if err != nil {
		return
	}
	c.deadlines = make(map[string]time.Time, len(ends))
	for i, end := range ends {
		if end != 0 {
			c.deadlines[c.renewals[i].Token] = header.Deadline(end)
		}
	}
	h.heard(header)
}

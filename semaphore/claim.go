package semaphore

import (
	"context"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
)

// claim extends the grants of one message to their full leases, in one call, for
// waiters whose tokens must stay good even if the process ends the next instant.
// It is complete when the first waiter gets its delivery; the first to confirm
// makes the call, the others wait for its answer.
type claim struct {
	hub      *hub
	renewals []protocol.Renewal

	once      sync.Once
	deadlines map[string]time.Time // of the tokens that hold
}

func (c *claim) add(w *waiter) {
	c.renewals = append(c.renewals, protocol.Renewal{Token: w.Token, Lease: w.Lease})
}

// confirm answers the deadline of a token, local time; false if it does not
// hold, or if that can't be learnt: then its waiter must go on waiting.
func (c *claim) confirm(token string) (time.Time, bool) {
	c.once.Do(c.send)
	deadline, ok := c.deadlines[token]
	return deadline, ok && protocol.Now().Before(deadline)
}

func (c *claim) send() {
	h := c.hub
	steps := h.steps
	steps.Process = h.process()
	var header protocol.Header
	var ends []int64
	ctx, cancel := context.WithTimeout(context.Background(), protocol.ClaimWindow)
	defer cancel()
	err := attempt(ctx, protocol.ClaimWindow, func(ctx context.Context) (err error) {
		header, ends, err = steps.Renew(ctx, c.renewals)
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

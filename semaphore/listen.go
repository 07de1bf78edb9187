package semaphore

import (
	"context"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

const (
	// listenBlock is how long one blocking pop of the inbox waits. A
	// connection that died in silence is noticed after that; meanwhile the
	// tends bring the grants.
	listenBlock = 10 * time.Second

	// linger is how long the goroutines of a hub go on when nobody waits any
	// more: under contention the next one comes soon.
	linger = 100 * time.Millisecond
)

// listen delivers what comes into the inbox. It runs while somebody waits and
// for linger after that.
func (h *hub) listen() {
	defer live.exit(h)
	var pause time.Duration
	for {
		ctx, inbox, ok := h.listenOn()
		if !ok {
			return
		}
		message, ok, err := h.steps.Client.BLPop(ctx, inbox, listenBlock)
		if err == nil {
			pause = 0
			if ok {
				h.receive(message)
			}
			continue
		}
		// A message may have been lost with the connection.
		h.mu.Lock()
		h.suspect()
		h.mu.Unlock()
		if ctx.Err() != nil {
			continue
		}
		if permanent(err) {
			h.fail(err)
		}
		if log := h.log.at(logger.Error); log != nil {
			log.Log(logger.Error, "listening failed, will be repeated", "error", err)
		}
		pause = min(max(2*pause, 10*time.Millisecond), time.Second)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// receive delivers a message. One without grants says that something has happened
// to all: the semaphore was deleted.
func (h *hub) receive(message string) {
	grants := protocol.ParseGrants(message)
	h.deliver(grants)
	if len(grants) == 0 {
		h.mu.Lock()
		h.suspect()
		h.mu.Unlock()
	}
}

// listenOn gives a context for the next pop, which hush may end, and the key to
// pop; it is false if listening is over.
func (h *hub) listenOn() (ctx context.Context, inbox string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quiet != nil {
		h.quiet()
	}
	if h.line.Len() == 0 && protocol.Now().Sub(h.emptied) >= linger {
		h.listening = false
		h.quiet = nil
		return nil, "", false
	}
	ctx, h.quiet = context.WithCancel(context.Background())
	return ctx, h.steps.Keys.Inbox(h.steps.Process), true
}

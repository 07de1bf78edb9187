package semaphore

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

// hub is what all handles on one key and client share in this process: the
// waiters, the leases to renew, the inbox through which grants arrive, and the
// two goroutines that serve them:
//
//	listen  pops the inbox, while somebody waits, and a moment longer
//	tend    tells Redis that the process lives, and learns what is due; while
//	        somebody waits, a lease is to be renewed, or a leave is to be sent
//
// Each holds a reference of its own to the hub and ends by itself.
type hub struct {
	key   hubKey
	log   logging
	clock *protocol.Clock
	steps protocol.Steps // its Process is guarded by mu: see current

	refs int // users; guarded by registry.mu

	wake chan struct{} // tend: look again at what is due; capacity 1

	mu        sync.Mutex
	planned   time.Time          // when tend will look again by itself; guarded by mu
	waiters   map[string]*waiter // by token, those that nothing was delivered to; guarded by mu
	asking    int                // acquires under way; guarded by mu
	line      *list.List         // of *waiter, those that have a ticket, lowest first; guarded by mu
	leases    map[string]*lease  // to renew, by token; guarded by mu
	flushing  bool               // sendLeaves runs; guarded by mu
	leaving   []*leaver          // leaves that are not confirmed yet; guarded by mu
	fresh     []*leaver          // those of them that sendLeaves will send; guarded by mu
	tending   bool               // the tend goroutine runs; guarded by mu
	listening bool               // the listen goroutine runs; guarded by mu
	quiet     context.CancelFunc // ends the pop under way; guarded by mu
	emptied   time.Time          // when the line became empty; guarded by mu
	hushing   *time.Timer        // runs hush a while after that; guarded by mu
	beat      time.Time          // when the next sign of life is due; guarded by mu
	lacking   int                // waiters that are missing; guarded by mu
	more      bool               // an answer asked for another call at once; guarded by mu
	trouble   error              // why the last tend failed, or nil; guarded by mu
	nextEnd   time.Time          // local time at which the first lease ends, or zero; guarded by mu
	places    int64              // before the nearest waiter; guarded by mu
	sweep     bool               // look for every waiter: something may be lost; guarded by mu
	swept     int64              // ticket up to which the sweep has come; guarded by mu
	cursor    int64              // ticket up to which the last beat looked; guarded by mu
	slow      time.Duration      // what an attempt needs, if that is more than usual; guarded by mu
}

// waiter is a token in the queue. Until it is in hub.waiters no more, deliver
// may send to result; who removes it from there decides what becomes of it: the
// deliverer its grant, the caller its cancellation.
type waiter struct {
	protocol.Waiter
	full    bool          // the full lease must be confirmed before the caller has it
	atMost  bool          // of a queue: the job is delivered once at most
	result  chan delivery // capacity 1
	ticket  int64         // 0 until known; guarded by hub.mu
	place   *list.Element // in hub.line, or nil; guarded by hub.mu
	missing bool          // Redis knows nothing of it: queue it again; guarded by hub.mu
	gone    bool          // abandoned; guarded by hub.mu
	again   time.Time     // until then a step that would queue it, and was not answered, may still come
}

// delivery is what a waiter waits for: a grant, or an error that ends the wait.
type delivery struct {
	grant    protocol.Grant
	deadline time.Time // of the grant, local time
	claim    *claim    // to confirm before use, or nil
	err      error     // ends the wait
	capacity int64     // with err: the capacity, which is below the permits wanted
}

// lease is one that the tend goroutine renews, on behalf of its permit.
type lease struct {
	protocol.Renewal
	permit *Permit
	due    time.Time     // when to renew next; guarded by hub.mu
	again  time.Duration // from one renewal to the next; 0: only once
}

func newHub(key hubKey, steps protocol.Steps, log logging) *hub {
	steps.Process = uniqueName()
	return &hub{
		key:     key,
		steps:   steps,
		log:     log,
		clock:   live.clock(key),
		wake:    make(chan struct{}, 1),
		waiters: make(map[string]*waiter),
		line:    list.New(),
		leases:  make(map[string]*lease),
	}
}

// add announces a waiter whose acquire is about to be sent: its grant may come
// before the answer. It gives the client id to send.
func (h *hub) add(w *waiter) (process string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewIdentity()
	w.Process = h.steps.Process
	h.waiters[w.Token] = w
	h.asking++
	return h.steps.Process
}

// asked notes that the acquire of an added waiter is over.
func (h *hub) asked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking--
}

// renewIdentity takes another client id if leaves were given up under the present
// one: their places would come alive again with it. It does so when nobody
// waits any more. The caller holds mu.
func (h *hub) renewIdentity() {
	if len(h.waiters) > 0 || h.asking > 0 || !h.gaveUp(protocol.Now()) {
		return
	}
	h.steps.Process = uniqueName()
	now := protocol.Now()
	h.leaving = slices.DeleteFunc(h.leaving, func(l *leaver) bool { return now.After(l.until) })
	if h.quiet != nil {
		h.quiet() // it pops the old inbox
	}
}

// current is a copy of the steps.
func (h *hub) current() protocol.Steps {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steps
}

// queue notes that an added waiter stands in the queue, and sees to its being
// served. a is the answer of its acquire.
func (h *hub) queue(w *waiter, a protocol.Acquired) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.ticket = a.Ticket
	if h.waiters[w.Token] != w {
		return // already delivered
	}
	if h.line.Len() == 0 {
		h.beat = protocol.Now().Add(tendBeat) // acquire was a sign of life
	}
	h.enline(w)
	if h.line.Front() == w.place {
		h.places = a.Places
	}
	if a.NextEnd != 0 {
		h.nextEnd = a.Deadline(a.NextEnd)
	}
	h.start()
	if h.sweep {
		h.nudge()
	}
	if !h.nextEnd.IsZero() {
		h.planFor(h.nextEnd.Add(spread(h.places)))
	}
}

// requeue puts a waiter back whose grant did not hold until it could be used. It
// keeps its ticket.
func (h *hub) requeue(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[w.Token] = w
	h.enline(w)
	h.suspect()
	h.start()
}

// suspect has every waiter looked for. The caller holds mu.
func (h *hub) suspect() {
	h.sweep, h.swept = true, 0
	h.nudge()
}

// enline puts a waiter into the line by its ticket. The caller holds mu.
func (h *hub) enline(w *waiter) {
	at := h.line.Back()
	for at != nil && at.Value.(*waiter).ticket > w.ticket {
		at = at.Prev()
	}
	if at == nil {
		w.place = h.line.PushFront(w)
	} else {
		w.place = h.line.InsertAfter(w, at)
	}
}

// remove takes a waiter out, and says whether it was still there. The caller
// holds mu.
func (h *hub) remove(w *waiter) bool {
	if h.waiters[w.Token] != w {
		return false
	}
	delete(h.waiters, w.Token)
	if w.place != nil {
		h.line.Remove(w.place)
		w.place = nil
		h.setMissing(w, false)
		h.rest()
	}
	return true
}

// setMissing notes whether Redis knows of a waiter. The caller holds mu.
func (h *hub) setMissing(w *waiter, missing bool) {
	switch {
	case missing && !w.missing:
		h.lacking++
	case !missing && w.missing:
		h.lacking--
	}
	w.missing = missing
}

// rest sees to it that the goroutines end if nobody comes for a while. The
// caller holds mu.
func (h *hub) rest() {
	if h.line.Len() > 0 || len(h.leases) > 0 && !h.listening {
		return
	}
	h.emptied = protocol.Now()
	if h.hushing == nil {
		h.hushing = time.AfterFunc(linger, h.hush)
	} else {
		h.hushing.Reset(linger)
	}
}

// hush ends the pop under way, and wakes tend, if still nobody waits.
func (h *hub) hush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.line.Len() > 0 {
		return
	}
	if h.quiet != nil {
		h.quiet()
	}
	h.nudge()
}

// settled removes a waiter whose acquire was answered without a wait. It is false if
// the waiter was delivered to before.
func (h *hub) settled(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remove(w)
}

// start runs the two goroutines, where they do not run and are needed. The
// caller holds mu and a reference.
func (h *hub) start() {
	if !h.listening && h.line.Len() > 0 {
		h.listening = true
		live.hold(h)
		go h.listen()
	}
	if !h.tending {
		h.tending = true
		live.hold(h)
		go h.tend()
	}
}

// planFor makes tend look again no later than at t. The caller holds mu.
func (h *hub) planFor(t time.Time) {
	if t.Before(h.planned) {
		h.nudge()
	}
}

// nudge makes tend look again at what is due.
func (h *hub) nudge() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// deliver hands grants to their waiters. A grant for a waiter that is gone is
// ignored: it came twice, or its leave is under way. One whose lease has ended
// by the local clock is not used: the waiter goes on waiting with its ticket.
func (h *hub) deliver(grants []protocol.Grant) {
	if len(grants) == 0 {
		return
	}
	late := h.deliverInTime(grants)
	if log := h.log.at(logger.Debug); log != nil && len(late) > 0 {
		log.Log(logger.Debug, "grants came too late", "tokens", late)
	}
}

// deliverInTime answers the tokens of grants that came too late.
func (h *hub) deliverInTime(grants []protocol.Grant) (late []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reading, _ := h.clock.Last()
	var c *claim
	delivered := make(map[*waiter]delivery, len(grants)) // sent when the claim is complete
	for _, g := range grants {
		w, ok := h.waiters[g.Token]
		if !ok {
			continue
		}
		d := delivery{grant: g, deadline: reading.Deadline(g.End)}
		if !protocol.Now().Before(d.deadline) {
			late = append(late, g.Token)
			h.suspect()
			continue
		}
		h.remove(w)
		if w.full {
			if c == nil || h.steps.Kind == protocol.Queue {
				c = newClaim(h)
			}
			c.add(w)
			d.claim = c
		}
		delivered[w] = d
	}
	for w, d := range delivered {
		w.result <- d
	}
	return late
}

// fail ends the wait of everybody in the line.
func (h *hub) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.line.Len() > 0 {
		w := h.line.Front().Value.(*waiter)
		h.remove(w)
		w.result <- delivery{err: err}
	}
}

// heard takes note of the head of an answer.
func (h *hub) heard(header protocol.Header) {
	h.clock.Set(header.Reading)
	h.deliver(header.Grants)
	if header.More {
		h.mu.Lock()
		h.more = true
		h.start()
		h.nudge()
		h.mu.Unlock()
	}
}

// process is the client id to send with a step: none if nobody waits here, so
// that no grant comes with the answer.
func (h *hub) process() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.line.Len() == 0 {
		return ""
	}
	return h.steps.Process
}

// lastTrouble is why tending fails at present, or nil.
func (h *hub) lastTrouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

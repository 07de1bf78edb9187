package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// checks is what the world knows of what was promised. It is touched with world.mu
// held.
type checks struct {
	w        *world
	last     reading
	holds    map[hold]*held     // all that were granted and not voided
	places   map[string]float64 // token → ticket, of all that ever waited
	timeless map[string]bool    // tokens whose process had no idea of the server time
	given    map[string]bool    // tokens that were given back, and may not hold again
	fence    int64              // the greatest so far
	jobs     map[string]*job
	losses   int  // how often the server has lost what it had answered
	forgot   bool // the names of calls were lost: copies may count
	broken   bool // a key was evicted, and not mended yet
	flaws    []string
}

// hold is one grant.
type hold struct {
	token string
	fence int64
}

// held is a grant as the server had it, and as the process believes.
type held struct {
	permits int
	end     int64
	void    bool        // the server has lost it, or part of its lease
	believe func() bool // the process believes that it holds; nil if it does not know of it
}

func (c *checks) init(w *world) {
	c.w = w
	c.holds, c.given, c.places = make(map[hold]*held), make(map[string]bool), make(map[string]float64)
	c.timeless, c.jobs = make(map[string]bool), make(map[string]*job)
	c.last = c.w.read()
}

func (c *checks) flaw(format string, args ...any) {
	c.w.happened("FLAW "+format, args...)
	c.flaws = append(c.flaws, fmt.Sprintf(format, args...))
}

// after checks what a script has done.
func (c *checks) after(step string, p *process, args []string) {
	now := c.w.read()
	c.last = now
	broken := c.broken
	if what := now.whole(c.w.Queue); what == "" {
		c.broken = false
	} else if !broken {
		c.flaw("after %s of %d: %s", step, p.id, what)
	}
	for _, waiter := range now.queue {
		if first, ok := c.places[waiter.token]; !ok || waiter.ticket < first {
			c.places[waiter.token] = waiter.ticket
		}
	}
	if step == "leave" {
		c.left(args[3:])
	}
	var fresh []string // tokens that were granted
	for token, record := range now.locked {
		h := hold{token, record.fence}
		if known, ok := c.holds[h]; ok {
			known.end = max(known.end, record.end)
			continue
		}
		if broken || c.forgot { // it may be one whose record was made anew
			c.holds[h] = &held{permits: int(record.permits), end: record.end}
			c.fence = max(c.fence, record.fence)
			continue
		}
		fresh = append(fresh, token)
	}
	slices.SortFunc(fresh, func(a, b string) int { return int(now.locked[a].fence - now.locked[b].fence) })
	for _, token := range fresh {
		c.granted(token, now)
	}
	if n := now.unended(); len(fresh) > 0 && !c.w.Queue && n > now.capacity {
		c.flaw("after %s of %d: %d permits are held, of %d", step, p.id, n, now.capacity)
	}
}

// left checks that nothing is left of those who leave: a token and its place for each.
func (c *checks) left(args []string) {
	for i := 0; i+1 < len(args); i += 2 {
		_, holds := c.last.locked[args[i]]
		if holds || slices.ContainsFunc(c.last.queue, func(p place) bool { return p.token == args[i] }) {
			c.flaw("%s has left, and is still there", args[i])
		}
	}
}

// granted checks a grant.
func (c *checks) granted(token string, now reading) {
	record := now.locked[token]
	c.w.counts.Grants++
	if record.fence <= c.fence {
		c.flaw("fence %d after %d", record.fence, c.fence)
	}
	c.fence = max(c.fence, record.fence)
	c.holds[hold{token, record.fence}] = &held{permits: int(record.permits), end: record.end}
	if c.given[token] && !c.timeless[token] {
		c.flaw("%s was given back, and holds again", token)
	}
	ticket, waited := c.places[token]
	if !waited {
		ticket = 1 << 62
	}
	for _, w := range now.queue {
		till, err := strconv.ParseInt(now.clients[w.client], 10, 64)
		if w.ticket < ticket && w.permits <= now.capacity && err == nil && till > now.now && !c.w.Queue {
			c.flaw("%s was granted, though %s waits longer", token, w.token)
		}
	}
}

// lose notes that the server has lost some of what it had answered.
func (c *checks) lose() {
	c.losses++
	c.forgot, c.broken = true, true // a replica may have kept what was broken
	now := c.w.read()
	c.last = now
	for h, known := range c.holds {
		record, ok := now.locked[h.token]
		if !ok || record.fence != h.fence || record.end < known.end {
			known.void = true
		}
	}
	clear(c.given)
}

// evicted notes that a key is gone.
func (c *checks) evicted(suffix string) {
	c.broken = true
	now := c.w.read()
	switch suffix {
	case ":released", ":calls", "":
		c.forgot = true
	case ":jobs":
		c.lose()
	case ":locked", ":leases":
		if len(now.locked) == 0 && len(now.leases) == 0 || c.w.Queue {
			c.lose() // both are gone
		}
		if suffix == ":leases" { // of those that were taken from c.holds before
			c.forgot = true
		}
	}
	c.last = now
}

// believes notes that a process has got a permit, and checks that there are not too
// many who believe so.
func (c *checks) believes(token string, fence int64, permits int, believe func() bool) *held {
	known, ok := c.holds[hold{token, fence}]
	if !ok {
		known = &held{permits: permits, void: true} // granted before a loss, perhaps
		c.holds[hold{token, fence}] = known
		if c.losses == 0 && !c.forgot {
			c.flaw("%s has fence %d, which was never granted", token, fence)
		}
	}
	if known.believe != nil {
		c.flaw("%s was delivered twice", token)
	}
	known.permits, known.believe = permits, believe // what a mended record says of permits is a guess
	sum := 0
	for _, h := range c.holds {
		if h.believe != nil && !h.void && h.believe() {
			sum += h.permits
		}
	}
	if sum > c.w.Capacity {
		c.flaw("%d permits are believed to be held, of %d", sum, c.w.Capacity)
	}
	return known
}

// fullLease checks that a token is good for the whole lease, from the call that got it.
func (c *checks) fullLease(token string, start time.Time) {
	record, ok := c.last.locked[token]
	if good := start.Add(c.w.skew + c.w.Expiration).UnixMilli(); ok && record.end < good && c.losses == 0 {
		c.flaw("%s ends %d ms too early", token, good-record.end)
	}
}

// gaveBack notes that a release was answered.
func (c *checks) gaveBack(token string) {
	if c.forgot {
		return
	}
	c.given[token] = true
	if record, ok := c.last.locked[token]; ok && record.end > c.last.now {
		c.flaw("%s was given back, and holds still", token)
	}
}

// atRest checks that nothing is left when nobody wants anything any more.
func (c *checks) atRest() {
	now := c.w.read()
	if now.exists && (now.free != now.capacity && !c.w.Queue || len(now.queue) > 0 || len(now.locked) > 0) {
		c.flaw("at rest: capacity %d, free %d, holders %v, waiters %v", now.capacity, now.free, slices.Collect(maps.Keys(now.locked)), now.queue)
	}
	if what := now.whole(c.w.Queue); what != "" {
		c.flaw("at rest: %s", what)
	}
}

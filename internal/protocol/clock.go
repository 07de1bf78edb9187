package protocol

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Now is the clock of this process. Tests shift it, to show that nothing rests on
// clocks that agree; only differences of its readings count.
var Now = time.Now

// Jitter draws a duration from zero to below a positive one, so that processes do not
// all do something at once. Simulations make it repeatable.
var Jitter = rand.N[time.Duration]

// A Reading pairs the two clocks: the server showed Server (ms) at some moment
// after Sent, on this process's monotonic clock.
type Reading struct {
	Sent   time.Time
	Server int64
}

// Deadline is a moment of the local clock by which a lease that ends at the server
// time end (ms) has not ended yet or just ends: who trusts a lease until then
// never trusts it for too long, however slow the network was. The server's
// time was cut to whole ms, hence the one subtracted.
func (r Reading) Deadline(end int64) time.Time {
	return r.Sent.Add(time.Duration(end-r.Server-1) * time.Millisecond)
}

// Clock keeps the last Reading. Its zero value has none. It may be used by many
// goroutines at once.
type Clock struct {
	// Like, if not nil, is a clock that probably shows the same: it is told all
	// readings, and VoidAfter guesses by it as long as there are none.
	Like *Clock

	mu   sync.Mutex
	last Reading
}

// Set takes a newer reading.
func (c *Clock) Set(r Reading) {
	if c.Like != nil {
		c.Like.Set(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Sent.After(c.last.Sent) {
		c.last = r
	}
}

// Last is the last reading, and false if there was none yet.
func (c *Clock) Last() (Reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.last.Server != 0
}

// VoidAfter is the server time (ms) at which a call that is sent now has been
// under way for patience, by the last reading; 0 if there is none. A wrong guess
// does little harm: a call that is void for it is answered with the right time, and one that
// is void too late is so after two minutes at the latest.
func (c *Clock) VoidAfter(now time.Time, patience time.Duration) int64 {
	last, ok := c.Last()
	if !ok && c.Like != nil {
		last, ok = c.Like.Last()
	}
	if !ok {
		return 0
	}
	return last.Server + (now.Sub(last.Sent) + patience).Milliseconds()
}

package protocol

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReading_DeadlineIsNeverLateAndNearlyAMillisecondEarly(t *testing.T) {
	sent := time.Now()
	for _, c := range []struct {
		name        string
		server, end int64
		want        time.Duration // after sent
	}{
		{"a minute", 1_000_000, 1_060_000, 59_999 * time.Millisecond},
		{"it just ends", 1_000_000, 1_000_000, -time.Millisecond},
		{"it ended", 1_000_000, 999_000, -1001 * time.Millisecond},
		{"a year", 0, 31_536_000_000, 8760*time.Hour - time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Reading{Sent: sent, Server: c.server}
			assert.Equal(t, c.want, r.Deadline(c.end).Sub(sent))
		})
	}
}

// Whatever the delays, at the deadline the lease has not ended yet, for a server
// that shows whole milliseconds of a finer clock.
func TestReading_DeadlineHoldsWhateverTheDelays(t *testing.T) {
	const lease = 1000 // ms
	for _, there := range []time.Duration{0, 999 * time.Microsecond, time.Second, time.Hour} {
		for _, fraction := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond} {
			sent := time.Now()
			read := sent.Add(there)                             // when the server read its clock
			shown := int64(5_000_000)                           // and what it showed, cut
			ends := read.Add(lease*time.Millisecond - fraction) // when the lease ends in truth
			deadline := Reading{sent, shown}.Deadline(shown + lease)
			assert.False(t, deadline.After(ends))
			assert.WithinDuration(t, ends.Add(-there), deadline, time.Millisecond)
		}
	}
}

func TestReading_DeadlineIsMonotonic(t *testing.T) {
	r := Reading{Sent: time.Now(), Server: 1000}
	assert.Contains(t, r.Deadline(2000).String(), "m=", "so that a set clock does not move it")
}

func TestClock_HasNoReadingAtFirst(t *testing.T) {
	var c Clock
	_, ok := c.Last()
	assert.False(t, ok)
	assert.Zero(t, c.VoidAfter(time.Now(), time.Second))
}

func TestClock_KeepsTheReadingThatWasSentLast(t *testing.T) {
	var c Clock
	now := time.Now()
	early, late := Reading{now, 7000}, Reading{now.Add(time.Second), 5000}
	c.Set(late)
	c.Set(early) // its answer took longer
	last, ok := c.Last()
	assert.True(t, ok)
	assert.Equal(t, late, last)
	c.Set(Reading{now.Add(time.Minute), 1})
	last, _ = c.Last()
	assert.Equal(t, int64(1), last.Server)
}

func TestClock_VoidAfterIsServerTime(t *testing.T) {
	now := time.Now()
	for _, ahead := range []time.Duration{0, -6 * time.Hour, 6 * time.Hour} {
		var c Clock
		server := now.Add(ahead).UnixMilli()
		c.Set(Reading{now, server})
		assert.Equal(t, server+4000, c.VoidAfter(now, 4*time.Second))
		assert.Equal(t, server+4000+60_000, c.VoidAfter(now.Add(time.Minute), 4*time.Second))
	}
}

func TestClock_MayBeUsedByManyAtOnce(t *testing.T) {
	var c Clock
	now := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				c.Set(Reading{now.Add(time.Duration(i*100 + j)), int64(i*100 + j + 1)})
				c.VoidAfter(now, time.Second)
			}
		})
	}
	wg.Wait()
	last, _ := c.Last()
	assert.Equal(t, int64(800), last.Server)
}

// A client whose clock is hours off sends and learns the same.
func TestSteps_TheClockOfTheClientChangesNothing(t *testing.T) {
	for _, off := range []time.Duration{-10 * time.Hour, 10 * time.Hour} {
		f := newFixture(t, 1)
		old := Now
		Now = func() time.Time { return old().Add(off) }
		t.Cleanup(func() { Now = old })
		a := f.acquire("a", 1)
		assert.InDelta(t, time.Now().UnixMilli(), a.Server, 60_000)
		left := a.Deadline(a.End).Sub(Now())
		assert.InDelta(t, testLease, left, float64(testLease/2))
		assert.True(t, f.release("a", "1").held)
		Now = old
	}
}

func TestClockGuessesByOneThatIsLikeIt(t *testing.T) {
	like := new(Clock)
	clock, other := &Clock{Like: like}, &Clock{Like: like}
	sent := time.Now()
	assert.Zero(t, clock.VoidAfter(sent, time.Second))
	other.Set(Reading{Sent: sent, Server: 5000})
	assert.EqualValues(t, 6000, clock.VoidAfter(sent, time.Second))
	_, known := clock.Last()
	assert.False(t, known, "a guess is no reading")
	clock.Set(Reading{Sent: sent, Server: 100_000})
	assert.EqualValues(t, 101_000, clock.VoidAfter(sent, time.Second))
	assert.EqualValues(t, 6000, other.VoidAfter(sent, time.Second))
}

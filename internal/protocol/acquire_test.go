package protocol

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bothWays runs a test with steps that may take the short cut, and with steps
// that take the long way: the two must do the same.
func bothWays(t *testing.T, capacity int, test func(t *testing.T, f *fixture, long bool)) {
	for name, long := range map[string]bool{"short cut": false, "long way": true} {
		t.Run(name, func(t *testing.T) { test(t, newFixture(t, capacity), long) })
	}
}

// before prepares a step of bothWays: it answers the state, as it shall be but
// for the step's own changes at server time now.
func (f *fixture) before(long bool) func(now int64) state {
	f.t.Helper()
	if long {
		f.goLong()
	}
	s := f.dump()
	return func(now int64) state {
		if long {
			s.Name["fresh"] = itoa(now)
		}
		return s
	}
}

func TestAcquire_CreatesTheSemaphore(t *testing.T) {
	f := newFixture(t, 3)
	a := f.acquire("a", 2)
	assert.Equal(t, a.Server+testLease.Milliseconds(), a.End)
	assert.Equal(t, int64(3), a.Capacity)
	assert.InDelta(t, a.Server, a.Fence/1000, 1)
	assert.Equal(t, state{
		Name: map[string]string{
			"capacity": "3", "held": "2", "seq": itoa(a.Fence), "ttl": "120000", "fresh": itoa(a.Server),
		},
		Version:   "1",
		Available: permits(a.Fence-1, 3)[2:],
		Locked:    map[string]record{"a": {2, a.End, a.Fence, a.Server, "host/1"}},
		Leases:    map[string]int64{"a": a.End},
	}, f.dump())
}

func TestAcquire_GrantsAtOnceWhenFreeAndNobodyWaits(t *testing.T) {
	bothWays(t, 3, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		want := f.before(long)
		b := f.acquire("b", 2)
		s := want(b.Server)
		s.hold("b", record{2, b.Server + testLease.Milliseconds(), b.Fence, b.Server, "host/1"})
		assert.Equal(t, s, f.dump())
		assert.Equal(t, Acquired{
			Header: Header{Reading: b.Reading}, Outcome: Granted, End: s.Leases["b"], Fence: s.Locked["b"].Fence, Capacity: 3,
		}, b)
	})
}

func TestAcquire_GrantsAgainAfterAllWasFree(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 2)
		f.release("a", "1")
		want := f.before(long)
		b := f.acquire("b", 1)
		s := want(b.Server)
		s.hold("b", record{1, b.End, b.Fence, b.Server, "host/1"})
		assert.Equal(t, s, f.dump())
	})
}

func TestAcquire_KeepsAnyOwner(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		for i, owner := range []string{"", "two words, 3 4 5", "line\nbreak", "\x00ü"} {
			w := waiter(string(rune('a'+i)), 1)
			w.Owner = owner
			f.before(long)
			require.Equal(t, Granted, f.ask(w).Outcome)
			assert.Equal(t, owner, f.dump().Locked[w.Token].Owner)
			f.release(w.Token, "1")
		}
	})
}

func TestAcquire_QueuesWhenNoneIsFree(t *testing.T) {
	bothWays(t, 1, func(t *testing.T, f *fixture, long bool) {
		a := f.acquire("a", 1)
		want := f.before(long)
		b := f.queue("b", 1)
		s := want(b.Server)
		s.Queue = []place{{waiter("b", 1).Entry("p1"), b.Ticket}}
		s.Clients = map[string]int64{"p1": b.Server + ClaimWindow.Milliseconds()}
		s.Name["seq"] = itoa(b.Ticket)
		assert.Equal(t, s, f.dump())
		assert.Greater(t, b.Ticket, a.Fence)
		assert.Equal(t, Acquired{
			Header: Header{Reading: b.Reading}, Outcome: Queued, Ticket: b.Ticket, End: b.Ticket,
			NextEnd: a.End, Fence: a.End, Places: 0, Capacity: 1,
		}, b)
	})
}

func TestAcquire_SaysHowManyPlacesAreBefore(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	assert.Equal(t, int64(1), f.as("p2").queue("c", 1).Places)
	assert.Equal(t, int64(2), f.queue("d", 1).Places)
	assert.Equal(t, int64(1), f.as("p2").queue("c", 1).Places)
}

func TestAcquire_SaysWhenTheFirstLeaseEnds(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	w := waiter("b", 1)
	w.Lease = testLease / 2
	early := f.ask(w)
	assert.Equal(t, early.End, f.queue("c", 2).NextEnd)
}

func TestAcquire_TellsOneWhoOnlyTriesThatNoneIsFree(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		want := f.before(long)
		b := f.try("b", 2)
		assert.Equal(t, Acquired{Header: Header{Reading: b.Reading}, Outcome: NotAvailable, Capacity: 2}, b)
		assert.Equal(t, want(b.Server), f.dump())
	})
}

func TestAcquire_GrantsATryWhenFree(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		want := f.before(long)
		b := f.try("b", 1)
		assert.Equal(t, Granted, b.Outcome)
		s := want(b.Server)
		s.hold("b", record{1, b.End, b.Fence, b.Server, "host/1"})
		assert.Equal(t, s, f.dump())
	})
}

func TestAcquire_DoesNotOvertakeWhoWaitsForMore(t *testing.T) {
	bothWays(t, 3, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 2)
		head := f.as("p2").queue("b", 2)
		f.before(long)
		assert.Equal(t, NotAvailable, f.try("c", 1).Outcome)
		f.before(long)
		behind := f.queue("c", 1)
		assert.Greater(t, behind.Ticket, head.Ticket)
		assert.Equal(t, []place{
			{waiter("b", 2).Entry("p2"), head.Ticket},
			{waiter("c", 1).Entry("p1"), behind.Ticket},
		}, f.dump().Queue)
	})
}

func TestAcquire_ATokenThatHoldsGetsItsGrantAgain(t *testing.T) {
	bothWays(t, 3, func(t *testing.T, f *fixture, long bool) {
		first := f.acquire("a", 2)
		for _, n := range []int{2, 1} {
			want := f.before(long)
			again := f.acquire("a", n)
			assert.Equal(t, first.End, again.End)
			assert.Equal(t, first.Fence, again.Fence)
			assert.Equal(t, want(again.Server), f.dump())
		}
		f.before(long)
		assert.Equal(t, Granted, f.try("a", 2).Outcome)
	})
}

func TestAcquire_ATokenThatIsQueuedKeepsItsTicket(t *testing.T) {
	bothWays(t, 1, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		first := f.queue("b", 1)
		f.queue("c", 1)
		want := f.before(long)
		again := f.queue("b", 1)
		assert.Equal(t, first.Ticket, again.Ticket)
		assert.Equal(t, int64(0), again.Places)
		s := want(again.Server)
		s.Clients["p1"] = again.Server + ClaimWindow.Milliseconds()
		assert.Equal(t, s, f.dump())
	})
}

func TestAcquire_ATokenThatWasServedMeanwhileGetsItsGrantAgain(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	r := f.as("p2").release("a", "1")
	again := f.acquire("b", 1)
	assert.Equal(t, r.Server+ClaimWindow.Milliseconds(), again.End)
	assert.Equal(t, f.dump().Locked["b"].Fence, again.Fence)
}

func TestAcquire_ATokenWhoseLeaseHasEndedStartsAnew(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		first := f.acquire("a", 2)
		f.endLease("a")
		want := f.before(long)
		again := f.acquire("a", 2)
		assert.Greater(t, again.Fence, first.Fence)
		s := want(again.Server)
		s.Name["fresh"] = f.dump().Name["fresh"]
		s.remove("a")
		s.place("a", record{2, again.End, again.Fence, again.Server, "host/1"})
		assert.Equal(t, s, f.dump())
	})
}

func TestAcquire_ReclaimsEndedLeasesFirst(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 2)
	f.acquire("b", 1)
	f.endLease("a")
	c := f.acquire("c", 1)
	s := f.dump()
	assert.Equal(t, map[string]record{
		"b": s.Locked["b"], "c": {1, c.End, c.Fence, c.Server, "host/1"},
	}, s.Locked)
	assert.Len(t, s.Available, 1)
}

func TestAcquire_ServesTheQueueBeforeItself(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.as("p2").queue("c", 1)
	f.endLease("a")
	d := f.queue("d", 1)
	s := f.dump()
	assert.Equal(t, d.Server+ClaimWindow.Milliseconds(), s.Locked["c"].End)
	assert.Equal(t, []place{{waiter("d", 1).Entry("p1"), d.Ticket}}, s.Queue)
	assert.Equal(t, map[string][]string{"p2": {message(s, "c")}}, s.Inboxes)
}

func TestAcquire_DropsTheDeadFromTheHead(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.as("p3").queue("c", 1)
	f.kill("p2")
	f.kill("p3")
	f.endLease("a")
	d := f.acquire("d", 1)
	s := f.dump()
	assert.Equal(t, map[string]record{"d": {1, d.End, d.Fence, d.Server, "host/1"}}, s.Locked)
	assert.Nil(t, s.Queue)
	assert.Nil(t, s.Inboxes)
}

func TestAcquire_DropsTheDeadEvenIfNoneIsFree(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.kill("p2")
	c := f.queue("c", 1)
	assert.Equal(t, int64(0), c.Places)
	assert.Equal(t, []place{{waiter("c", 1).Entry("p1"), c.Ticket}}, f.dump().Queue)
}

func TestAcquire_HandlesManyPermits(t *testing.T) {
	bothWays(t, 10_000, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		want := f.before(long)
		b := f.acquire("b", 5_000)
		s := want(b.Server)
		s.hold("b", record{5_000, b.End, b.Fence, b.Server, "host/1"})
		require.Equal(t, s, f.dump())
		f.before(long)
		f.release("b", "1")
		f.before(long)
		f.acquire("c", 9_999)
	})
}

func TestAcquire_TheFirstSettingsCount(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		other := f.as("p2")
		other.Capacity = 5
		want := f.before(long)
		b := other.acquire("b", 1)
		assert.Equal(t, int64(2), b.Capacity)
		s := want(b.Server)
		s.hold("b", record{1, b.End, b.Fence, b.Server, "host/1"})
		assert.Equal(t, s, f.dump())
		f.before(long)
		assert.Equal(t, NotAvailable, other.try("c", 1).Outcome)
	})
}

func TestAcquire_NumbersIncreaseWhateverTheClock(t *testing.T) {
	bothWays(t, 3, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		const ahead = 4_000_000_000_000_000 // µs: in the year 2096
		f.do("HSET", f.key(""), "seq", ahead)
		last := int64(ahead)
		f.before(long)
		next := func(number int64) {
			t.Helper()
			assert.Equal(t, last+1, number)
			last = number
		}
		next(f.acquire("b", 1).Fence)
		next(f.acquire("c", 1).Fence)
		next(f.queue("d", 1).Ticket)
		next(f.queue("e", 1).Ticket)
		f.release("c", "1")
		next(f.dump().Locked["d"].Fence)
		assert.Equal(t, itoa(last), f.dump().Name["seq"])
	})
}

func TestAcquire_ALongerLeaseMakesTheKeysLiveLonger(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	w := waiter("b", 1)
	w.Lease = 10 * testLease
	b := f.ask(w)
	assert.Equal(t, b.Server+w.Lease.Milliseconds(), b.End)
	assert.Equal(t, itoa(2*w.Lease.Milliseconds()), f.dump().Name["ttl"])
	f.acquire("c", 1)
	assert.Equal(t, itoa(2*w.Lease.Milliseconds()), f.dump().Name["ttl"], "a shorter one does not change that")
}

func TestAcquire_IsVoidWhenTooLate(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		a := f.acquire("a", 1)
		f.acquire("b", 1)
		f.as("p2").queue("c", 1)
		f.endLease("a") // so there would be something to do
		want := f.before(long)(0)
		for _, queue := range []bool{true, false} {
			late, err := f.Acquire(context.Background(), waiter("d", 1), queue, a.Server-1, false)
			require.NoError(t, err)
			assert.Equal(t, Acquired{Header: Header{Reading: late.Reading}, Outcome: Void}, late)
		}
		if long {
			want.Name["fresh"] = "1"
		}
		assert.Equal(t, want, f.dump())
	})
}

func TestAcquire_IsVoidOnlyAfterItsTime(t *testing.T) {
	f := newFixture(t, 2)
	const now = 1_000_000
	f.at(now)
	a, err := f.Acquire(context.Background(), waiter("a", 1), true, now, false)
	require.NoError(t, err)
	assert.Equal(t, Granted, a.Outcome)
	a, err = f.Acquire(context.Background(), waiter("b", 1), true, now-1, false)
	require.NoError(t, err)
	assert.Equal(t, Void, a.Outcome)
}

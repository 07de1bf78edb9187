package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTend_SaysThatTheProcessLives(t *testing.T) {
	f := newFixture(t, 1)
	a := f.acquire("a", 1)
	f.queue("b", 1)
	f.kill("p1")
	s := f.dump()
	answer := f.tend(Tending{Waiting: true})
	s.Clients["p1"] = answer.Server + ClaimWindow.Milliseconds()
	assert.Equal(t, s, f.dump())
	assert.Equal(t, Tended{Header: Header{Reading: answer.Reading}, NextEnd: a.End, Capacity: 1, Ends: []int64{}, Found: []int64{}}, answer)
}

func TestTend_WithoutWaitersMarksNobodyAlive(t *testing.T) {
	f := newFixture(t, 1)
	a := f.acquire("a", 1)
	s := f.dump()
	answer := f.tend(Tending{Renew: []Renewal{{"a", testLease}}})
	assert.Nil(t, f.dump().Clients)
	s.Leases["a"] = answer.Ends[0]
	s.Locked["a"] = record{1, answer.Ends[0], a.Fence, a.Server, "host/1"}
	assert.Equal(t, s, f.dump())
}

func TestTend_CreatesNothingIfNothingExistsAndNobodyWaits(t *testing.T) {
	f := newFixture(t, 1)
	answer := f.tend(Tending{
		Renew: []Renewal{{"a", testLease}, {"b", testLease}},
		Leave: []Waiter{waiter("c", 1)},
		Look:  []Waiter{waiter("d", 1)},
	})
	assert.Equal(t, Tended{Header: Header{Reading: answer.Reading}, Ends: []int64{0, 0}, Found: []int64{}}, answer)
	assert.Equal(t, state{}, f.dump())
}

func TestTend_CreatesTheSemaphoreForWhoWaits(t *testing.T) {
	f := newFixture(t, 2)
	answer := f.tend(Tending{Waiting: true})
	s := f.dump()
	assert.Len(t, s.Available, 2)
	assert.Equal(t, map[string]int64{"p1": answer.Server + 3000}, s.Clients)
	assert.Equal(t, int64(2), answer.Capacity)
}

func TestTend_DoesAllInOneCall(t *testing.T) {
	f := newFixture(t, 4)
	f.acquire("held", 1)
	f.acquire("lost", 1)
	f.acquire("other", 2)
	f.queue("leaves", 1)
	f.queue("waits", 2)
	granted := f.queue("granted", 1)
	f.queue("last", 4)
	f.endLease("lost")
	gone := Queueing{waiter("requeued", 1), granted.Ticket - 1}
	all := Tending{
		Waiting: true,
		Renew:   []Renewal{{"held", 2 * testLease}, {"lost", testLease}},
		Leave:   []Waiter{waiter("other", 2), waiter("leaves", 1)},
		Requeue: []Queueing{gone},
		Look:    []Waiter{waiter("waits", 2), waiter("granted", 1), waiter("last", 4), waiter("unknown", 1), gone.Waiter},
	}
	answer := f.tend(all)
	// Free were: 1 of lost, 2 of other. They went to waits, then to requeued.
	s := f.dump()
	end := answer.Server + 2*testLease.Milliseconds()
	assert.Equal(t, []int64{end, 0}, answer.Ends)
	assert.Equal(t, []int64{1, 1, 1, 0, 1}, answer.Found)
	assert.Len(t, s.Locked, 3)
	assert.Equal(t, end, s.Leases["held"])
	assert.ElementsMatch(t, append(grants(s, "waits", "requeued"), grants(s, "waits", "requeued")...), answer.Grants)
	assert.Equal(t, []place{
		{waiter("granted", 1).Entry("p1"), granted.Ticket},
		{waiter("last", 4).Entry("p1"), s.Queue[1].Ticket},
	}, s.Queue)
	assert.Equal(t, answer.Server+3000, answer.NextEnd)
	assert.Equal(t, int64(4), answer.Capacity)

	again := f.tend(all) // as if the reply was lost
	end = again.Server + 2*testLease.Milliseconds()
	assert.Equal(t, []int64{end, 0}, again.Ends)
	assert.Equal(t, answer.Found, again.Found)
	assert.Equal(t, grants(s, "waits", "requeued"), again.Grants)
	held := s.Locked["held"]
	held.End = end
	s.Locked["held"], s.Leases["held"] = held, end
	s.Clients["p1"] = again.Server + 3000
	assert.Equal(t, s, f.dump())
}

func TestTend_RequeuedKeepItsTicket(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	b := f.queue("b", 1)
	f.as("p2").queue("c", 1)
	s := f.dump()
	f.do("ZREM", f.key("queue"), waiter("b", 1).Entry("p1"))
	requeue := Tending{Waiting: true, Requeue: []Queueing{{waiter("b", 1), b.Ticket}}}
	for range 2 { // as if the reply was lost
		answer := f.tend(requeue)
		s.Clients["p1"] = answer.Server + 3000
		assert.Equal(t, s, f.dump())
	}
}

func TestTend_RequeuesNobodyWhoWasServed(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	b := f.queue("b", 1)
	f.as("p2").queue("c", 1)
	f.release("a", "1")
	s := f.dump()
	answer := f.tend(Tending{Waiting: true, Requeue: []Queueing{{waiter("b", 1), b.Ticket}}})
	s.Clients["p1"] = answer.Server + 3000
	assert.Equal(t, s, f.dump())
}

func TestTend_RequeuesInOrderAfterAFlush(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	b := f.queue("b", 1)
	c := f.as("p2").queue("c", 1)
	d := f.queue("d", 1)
	f.deleteAll()
	f.acquire("new", 1)
	f.tend(Tending{Waiting: true, Requeue: []Queueing{{waiter("d", 1), d.Ticket}}})
	f.as("p2").tend(Tending{Waiting: true, Requeue: []Queueing{{waiter("c", 1), c.Ticket}}})
	f.tend(Tending{Waiting: true, Requeue: []Queueing{{waiter("b", 1), b.Ticket}}})
	assert.Equal(t, []place{
		{waiter("b", 1).Entry("p1"), b.Ticket},
		{waiter("c", 1).Entry("p2"), c.Ticket},
		{waiter("d", 1).Entry("p1"), d.Ticket},
	}, f.dump().Queue)
}

// A flush takes the sequence number too, which may have been ahead of the clock.
func TestTend_WhoComesAfterARequeuedOneIsBehindIt(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	const ahead = 4_000_000_000_000_000 // µs: in the year 2096
	f.do("HSET", f.key(""), "seq", ahead)
	b := f.queue("b", 1)
	f.deleteAll()
	f.acquire("new", 1)
	f.tend(Tending{Waiting: true, Requeue: []Queueing{{waiter("b", 1), b.Ticket}}})
	assert.Greater(t, f.queue("c", 1).Ticket, b.Ticket)
}

func TestTend_SaysHowManyPlacesAreBeforeTheNearest(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.as("p2").queue("c", 1)
	f.queue("d", 1)
	f.queue("e", 1)
	look := Tending{Waiting: true, Look: []Waiter{waiter("d", 1), waiter("e", 1)}}
	assert.Equal(t, int64(2), f.tend(look).Places)
	f.as("p2").leave(waiter("b", 1))
	answer := f.tend(look)
	assert.Equal(t, int64(1), answer.Places)
	assert.Equal(t, []int64{1, 1}, answer.Found)
}

func TestTend_DropsPlacesOfDeadProcesses(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.as("p2").queue("c", 1)
	f.as("p3").queue("d", 1)
	f.kill("p2")
	s := f.dump()
	answer := f.as("p3").tend(Tending{Waiting: true, Look: []Waiter{waiter("d", 1)}})
	assert.Equal(t, int64(0), answer.Places)
	s.Clients["p3"] = answer.Server + 3000
	s.Queue = s.Queue[2:]
	assert.Equal(t, s, f.dump())
}

func TestTend_AProcessIsDeadWithTheMillisecondOfItsMark(t *testing.T) {
	f := newFixture(t, 1)
	f.at(1_000_000_000)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	other := f.as("p3")
	other.at(1_000_002_999)
	other.tend(Tending{Waiting: true})
	assert.Len(t, f.dump().Queue, 1)
	other.at(1_000_003_000)
	other.tend(Tending{Waiting: true})
	assert.Nil(t, f.dump().Queue)
}

func TestTend_WhoseMarkIsGoneHasAClaimWindowMore(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.do("DEL", f.key("clients"))
	s := f.dump()
	answer := f.tend(Tending{})
	s.Clients = map[string]int64{"p2": answer.Server + 3000}
	assert.Equal(t, s, f.dump())
}

func TestTend_RemembersTheDeadForTenMinutes(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	const now = 1_000_000_000
	f.at(now)
	f.do("ZADD", f.key("clients"), now-599_999, "p2", now-600_000, "p3", now-700_000, "p4")
	f.tend(Tending{Waiting: true})
	assert.Equal(t, map[string]int64{"p1": now + 3000, "p2": now - 599_999}, f.dump().Clients)
}

func TestTend_AnswersTheNextEnd(t *testing.T) {
	f := newFixture(t, 3)
	a := f.acquire("a", 1)
	assert.Equal(t, a.End, f.tend(Tending{Waiting: true}).NextEnd)
	f.release("a", "1")
	assert.Equal(t, int64(0), f.tend(Tending{Waiting: true}).NextEnd)
}

func TestTend_ReclaimsInBatches(t *testing.T) {
	f := newFixture(t, 1200)
	f.acquire("a", 1)
	f.seedEnded(1000)
	first := f.tend(Tending{})
	assert.True(t, first.More)
	assert.Len(t, f.dump().Locked, 501)
	assert.True(t, f.tend(Tending{}).More)
	assert.Len(t, f.dump().Locked, 1)
	assert.False(t, f.tend(Tending{}).More)
}

func TestTend_ServesInBatches(t *testing.T) {
	f := newFixture(t, 1000)
	f.acquire("a", 1000)
	for i := range 750 {
		f.do("ZADD", f.key("queue"), i+1, waiter("w"+itoa(int64(i)), 1).Entry("p1"))
	}
	f.do("PEXPIRE", f.key("queue"), 2*testLease.Milliseconds())
	first := f.as("p2").release("a", "1")
	require.True(t, first.More)
	assert.Len(t, f.dump().Locked, 500)
	assert.Contains(t, f.dump().Locked, "w499")
	assert.NotContains(t, f.dump().Locked, "w500")
	second := f.tend(Tending{Waiting: true})
	assert.False(t, second.More)
	assert.Len(t, second.Grants, 250)
	assert.Len(t, f.dump().Locked, 750)
}

package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inEveryScene spoils every state, takes every step, and expects that nothing
// comes of it: who held holds, never is there too much, and at last all is there.
func inEveryScene(t *testing.T, spoil func(s scene)) {
	t.Parallel()
	for state, build := range scenes {
		for step, run := range oneStep {
			t.Run(state+" "+step, func(t *testing.T) {
				s := build(newFixture(t, 0))
				held := s.heldByTruth()
				spoil(s)
				require.NoError(t, run(s))
				s.neverAbove()
				s.becomesWhole(held)
			})
		}
	}
}

func TestMend_GarbageInTheName(t *testing.T) {
	for _, field := range []string{"capacity", "held", "seq", "ttl", "fresh"} {
		for _, garbage := range []string{"x", "-1", "1.5", "nan", "inf", "1e300"} {
			t.Run(field+" "+garbage, func(t *testing.T) {
				inEveryScene(t, func(s scene) { s.do("HSET", s.key(""), field, garbage) })
			})
		}
		t.Run("without "+field, func(t *testing.T) {
			inEveryScene(t, func(s scene) { s.do("HDEL", s.key(""), field) })
		})
	}
	t.Run("held 0", func(t *testing.T) {
		inEveryScene(t, func(s scene) { s.do("HSET", s.key(""), "held", 0) })
	})
}

func TestMend_ForeignElements(t *testing.T) {
	for name, command := range map[string][]any{
		"available: more":              {"RPUSH", "available", "x", "y", "z"},
		"available: the same":          {"LPUSH", "available", "1:1", "1:1"},
		"available: fewer":             {"LTRIM", "available", 1, -2},
		"locked: unreadable":           {"HSET", "locked", "x", "y", "", "", "z", "1 2 3"},
		"locked: ended":                {"HSET", "locked", "x", "1 1 1 1 o"},
		"locked: too many permits":     {"HSET", "locked", "x", "99999999999 1 1 1 o"},
		"locked: far too many permits": {"HSET", "locked", "x", "99999999999999999999999999 4000000000000 1 1 o"},
		"locked: ends too late":        {"HSET", "locked", "x", "1 99999999999999999999 1 1 o"},
		"locked: too high a fence":     {"HSET", "locked", "x", "1 1 99999999999999999999 1 o"},
		"leases: in the past":          {"ZADD", "leases", 1, "x", 0, "", "-inf", "y"},
		"leases: in the future":        {"ZADD", "leases", 4_000_000_000_000, "x"},
		"leases: no time":              {"ZADD", "leases", "inf", "x", 1.5, "y"},
		"queue: unreadable":            {"ZADD", "queue", 1, "x", 2, "", 3, "x y z a b", 4, "x 1 60000 p1"},
		"queue: last":                  {"ZADD", "queue", "inf", "x"},
		"queue: no ticket":             {"ZADD", "queue", "-inf", "x 1 60000 p1 o", 1.5, "y 1 60000 p1 o"},
		"queue: wants none":            {"ZADD", "queue", 1, "x 0 60000 p1 o"},
		"queue: wants too many":        {"ZADD", "queue", 1, "x 99999999999999 60000 p1 o"},
		"queue: of nobody":             {"ZADD", "queue", 1, "x 1 60000 nobody o"},
		"queue: who holds":             {"ZADD", "queue", 1, "a 1 60000 p1 o"},
		"clients":                      {"ZADD", "clients", "inf", "x", "-inf", "y", 1.5, "z"},
		"released":                     {"RPUSH", "released", "x", "b call"},
	} {
		t.Run(name, func(t *testing.T) {
			inEveryScene(t, func(s scene) {
				args := append([]any{s.key(command[1].(string))}, command[2:]...)
				s.do(command[0].(string), args...)
				s.do("PEXPIRE", args[0], 2*testLease.Milliseconds())
				s.wants["x"], s.wants["y"] = 1, 1 // in case they are served
			})
		})
	}
}

func TestMend_ARecordThatWasOverwrittenIsReclaimedAtTheEndOfItsLease(t *testing.T) {
	for step, run := range oneStep {
		t.Run(step, func(t *testing.T) {
			s := scenes["weighted"](newFixture(t, 0))
			s.do("HSET", s.key("locked"), "e", "x")
			require.NoError(t, run(s))
			s.neverAbove()
			s.do("ZADD", s.key("leases"), 1, "e")
			require.NoError(t, run(s))
			s.becomesWhole(nil)
		})
	}
}

func TestMend_LeavingWithARecordThatWasOverwrittenLosesNoPermit(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	f.acquire("b", 2)
	f.do("HSET", f.key("locked"), "b", "x")
	f.leave(waiter("b", 2))
	free, _, _ := f.status("")
	assert.Equal(t, int64(2), free)
}

func TestMend_ServesOnlyWhatIsThereAfterARecordWasOverwritten(t *testing.T) {
	f := newFixture(t, 4)
	f.acquire("a", 2)
	f.acquire("b", 2)
	f.queue("c", 1)
	f.endLease("a")
	f.endLease("b")
	f.do("HSET", f.key("locked"), "b", "x")
	answer := f.tend(Tending{Waiting: true})
	assert.Len(t, answer.Grants, 1)
	assert.Len(t, f.dump().Available, 3)
}

// A release that finds only the lease, just ended, changes nothing either.
func TestMend_AnEndedLeaseWithoutARecordIsNotHeld(t *testing.T) {
	f := newFixture(t, 2)
	f.at(1_000_000_000)
	a := f.acquire("a", 1)
	f.acquire("b", 1)
	f.do("DEL", f.key("locked"))
	before := f.dump()
	f.at(a.End)
	_, held, _, err := f.Release(t.Context(), "a", "1")
	require.NoError(t, err)
	assert.False(t, held)
	assert.Equal(t, before, f.dump())
	f.at(a.End - 1)
	assert.True(t, f.release("b", "1").held)
}

func TestMend_AReleaseWithoutARecordLosesNoPermit(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	f.acquire("b", 2)
	f.do("HDEL", f.key("locked"), "b")
	f.do("HSET", f.key("locked"), "x", "1 1 1 1 o") // so the numbers agree
	assert.True(t, f.release("b", "1").held)
	free, _, _ := f.status("")
	assert.Equal(t, int64(2), free)
}

func TestMend_AForeignHolderCountsUntilItsEnd(t *testing.T) {
	f := newFixture(t, 2)
	a := f.acquire("a", 1)
	f.acquire("b", 1)
	f.do("HSET", f.key("locked"), "x", "1 "+itoa(a.End)+" 1 1 o")
	f.tend(Tending{})
	assert.Equal(t, "3", f.dump().Name["held"])
	assert.Equal(t, int64(0), f.release("a", "1").free)
	assert.Equal(t, int64(1), f.release("b", "1").free)
	f.endLease("x")
	free, _, _ := f.status("")
	assert.Equal(t, int64(2), free)
}

func TestMend_AForeignMessageDoesNotSpoilAGrant(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.do("RPUSH", f.Keys.Inbox("p2"), "junk")
	f.release("a", "1")
	s := f.dump()
	assert.Equal(t, map[string][]string{"p2": {message(s, "b")}}, s.Inboxes)
}

func TestMend_KeepsTheKeysForLeasesThatItFinds(t *testing.T) {
	for _, lost := range []string{"", "locked", "leases"} {
		t.Run(lost, func(t *testing.T) {
			f := newFixture(t, 3)
			f.acquire("a", 1)
			f.do("DEL", f.key(lost))
			f.do("HDEL", f.key(""), "ttl")
			short := waiter("b", 1)
			short.Lease = testLease / 30
			f.as("p2").ask(short) // check: no key ends before the lease of a
		})
	}
}

func TestMend_GivesEveryNewKeyALife(t *testing.T) {
	for _, lost := range suffixes {
		t.Run(lost, func(t *testing.T) {
			f := newFixture(t, 3)
			f.acquire("a", 1)
			f.acquire("b", 1)
			f.do("DEL", f.key(lost))
			_, err := f.Acquire(t.Context(), waiter("c", 1), true, 0, false)
			require.NoError(t, err)
			_, _, _, err = f.Release(t.Context(), "b", "1")
			require.NoError(t, err)
			s, l := f.read()
			assert.Empty(t, shortLived(f.Keys, s, l))
		})
	}
}

// Hundreds of others have ended too, so that one call does not reclaim all.
func TestAcquire_OfATokenThatHasEndedAmongManyLosesNoPermit(t *testing.T) {
	f := newFixture(t, 1000)
	f.acquire("a", 2)
	f.seedEnded(700)
	f.endLease("a")
	f.do("ZADD", f.key("leases"), 2, "a")
	f.do("HSET", f.key("locked"), "a", "2 2 9 1 o")
	f.acquire("a", 2)
	f.status("")
	free, _, _ := f.status("")
	assert.Equal(t, int64(998), free)
}

func TestMend_FencesIncreaseWhateverTheSequenceIs(t *testing.T) {
	for _, garbage := range []string{"x", "-1", "0", "1.5", "nan", "inf", "1e300", "99999999999999999999"} {
		bothWays(t, 4, func(t *testing.T, f *fixture, long bool) {
			a := f.acquire("a", 1)
			f.before(long)
			f.do("HSET", f.key(""), "seq", garbage)
			b := f.acquire("b", 1)
			assert.Greater(t, b.Fence, a.Fence, garbage)
			assert.InDelta(t, b.Server, b.Fence/1000, 1, garbage)
		})
	}
}

// When its own ended lease is given up at last, whoever waited for it goes first.
func TestAcquire_OfATokenThatHasEndedAmongManyServesTheQueueFirst(t *testing.T) {
	f := newFixture(t, 750)
	f.acquire("a", 150)
	f.seedEnded(600)
	f.do("HSET", f.key("locked"), "a", "150 2 9 1 o")
	f.do("ZADD", f.key("leases"), 2, "a")
	f.do("ZADD", f.key("queue"), 1, waiter("b", 640).Entry("p2")) // 500 are free at first
	f.do("PEXPIRE", f.key("queue"), 2*testLease.Milliseconds())
	f.queue("a", 150)
	s := f.dump()
	assert.Contains(t, s.Locked, "b")
}

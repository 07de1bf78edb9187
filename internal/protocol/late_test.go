package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// send sends an acquire that may queue.
func (f *fixture) send(token string, voidAfter int64, repeated bool) Acquired {
	f.t.Helper()
	a, err := f.Acquire(f.t.Context(), waiter(token, 1), true, voidAfter, repeated)
	require.NoError(f.t, err)
	f.check()
	return a
}

// An acquire was sent, got no answer and was sent again; the token was granted and
// released; and then the first of the two calls comes.
func TestLate_ATokenThatWasReleasedIsNotGrantedAgain(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		const now = 1_000_000_000
		f.at(now)
		f.acquire("other", 1)
		f.before(long)
		require.Equal(t, Granted, f.send("a", now+3000, true).Outcome)
		f.before(long)
		require.True(t, f.release("a", "1").held)
		f.at(now + 2900)
		want := f.before(long)(0)
		if long {
			want.Name["fresh"] = "1"
		}
		first := f.send("a", now+2950, false)
		assert.Equal(t, Acquired{Header: Header{Reading: first.Reading}, Outcome: Void}, first)
		assert.Equal(t, want, f.dump())
		assert.Equal(t, Granted, f.send("b", 0, false).Outcome, "others are granted")
	})
}

func TestLate_IsLookedForUntilNoneCanCome(t *testing.T) {
	f := newFixture(t, 2)
	const now = 1_000_000_000
	f.at(now)
	f.send("a", now+3000, true)
	f.send("b", now+1000, true) // does not shorten it
	f.release("a", "1")
	f.at(now + 3000)
	assert.Equal(t, Void, f.send("a", 0, false).Outcome)
	f.at(now + 3001)
	assert.Equal(t, Granted, f.send("a", 0, false).Outcome)
}

func TestLate_ACallWithoutAVoidTimeIsLookedForFourSeconds(t *testing.T) {
	f := newFixture(t, 1)
	const now = 1_000_000_000
	f.at(now)
	f.send("a", 0, true)
	f.release("a", "1")
	f.at(now + 4000)
	assert.Equal(t, Void, f.send("a", 0, false).Outcome)
	f.at(now + 4001)
	assert.Equal(t, Granted, f.send("a", 0, false).Outcome)
}

func TestLate_NothingIsNotedOfACallThatIsNotRepeated(t *testing.T) {
	f := newFixture(t, 1)
	f.send("a", 1<<50, false)
	assert.NotContains(t, f.dump().Name, "late")
}

func TestLate_ARepeatedCallThatQueuesIsNotedToo(t *testing.T) {
	f := newFixture(t, 1)
	const now = 1_000_000_000
	f.at(now)
	f.acquire("a", 1)
	require.Equal(t, Queued, f.send("b", now+3000, true).Outcome)
	f.release("a", "1")
	f.release("b", "1")
	assert.Equal(t, Void, f.send("b", now+2000, false).Outcome)
}

func TestTend_QueuesNobodyAgainWhenTooLate(t *testing.T) {
	f := newFixture(t, 1)
	const now = 1_000_000_000
	f.at(now)
	f.acquire("a", 1)
	requeue := []Queueing{{waiter("b", 1), now * 1000}}
	f.tend(Tending{Waiting: true, VoidAfter: now - 1, Requeue: requeue})
	assert.Nil(t, f.dump().Queue)
	f.tend(Tending{Waiting: true, VoidAfter: now, Requeue: requeue})
	assert.Len(t, f.dump().Queue, 1)
}

func TestAcquire_OfAQueuedTokenRenewsTheMarkOfItsProcess(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	f.do("DEL", f.key("clients"))
	again := f.queue("b", 1) // check: the key has a life
	assert.Equal(t, map[string]int64{"p1": again.Server + 3000}, f.dump().Clients)
}

func TestLate_ACopyOfARefusedTryIsVoid(t *testing.T) {
	f := newFixture(t, 2)
	f.at(1_000_000_000)
	f.acquire("a", 1)
	for _, w := range []Waiter{waiter("b", 2), waiter("c", 3)} { // none free; more than there are
		_, err := f.Acquire(t.Context(), w, false, 1_000_003_000, true)
		require.NoError(t, err)
	}
	f.resize(Call{Name: "1"}, 9, false)
	for _, w := range []Waiter{waiter("b", 2), waiter("c", 3)} {
		a, err := f.Acquire(t.Context(), w, false, 1_000_003_000, false)
		require.NoError(t, err)
		assert.Equal(t, Void, a.Outcome)
	}
}

// The copy is what finds that the lease has ended.
func TestLate_ACopyThatComesWhenTheLeaseHasEndedIsVoid(t *testing.T) {
	f := newFixture(t, 2)
	f.at(1_000_000_000)
	w := waiter("a", 1)
	w.Lease = time.Second
	a, err := f.Acquire(t.Context(), w, false, 1_000_003_000, true)
	require.NoError(t, err)
	require.Equal(t, Granted, a.Outcome)
	f.at(1_000_001_000)
	a, err = f.Acquire(t.Context(), w, true, 1_000_003_000, false)
	require.NoError(t, err)
	assert.Equal(t, Void, a.Outcome)
	assert.Nil(t, f.dump().Locked)
}

// Two tends want the same waiter to be queued again; the one that was sent first comes
// when the waiter has had its turn, or has gone.
func TestTendThatComesLateQueuesNobodyWhoHasHadHisTurn(t *testing.T) {
	for name, turn := range map[string]func(*fixture, Waiter){
		"given back": func(f *fixture, w Waiter) { f.release(w.Token, "r") },
		"given back the long way": func(f *fixture, w Waiter) {
			f.goLong()
			f.release(w.Token, "r")
		},
		"left": func(f *fixture, w Waiter) { f.leave(w) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1)
			f.at(1_000_000_000)
			w := waiter("w", 1)
			again := Tending{
				Waiting: true, VoidAfter: 1_000_002_500,
				Requeue: []Queueing{{Waiter: w, Ticket: 1}},
			}
			f.tend(again)
			require.Contains(t, f.dump().Locked, "w")
			turn(f, w)
			f.tend(again)
			s := f.dump()
			require.Empty(t, s.Queue)
			require.Empty(t, s.Locked)
		})
	}
}

// The lease of a grant has ended before it was used: that is no turn.
func TestTendQueuesAgainWhoseGrantCameToNothing(t *testing.T) {
	f := newFixture(t, 1)
	f.at(1_000_000_000)
	again := Tending{
		Waiting: true, VoidAfter: 1_000_002_500,
		Requeue: []Queueing{{Waiter: waiter("w", 1), Ticket: 1}},
	}
	f.tend(again)
	f.endLease("w")
	f.status("")
	require.Empty(t, f.dump().Locked)
	f.tend(again)
	require.Contains(t, f.dump().Locked, "w")
}

// A time that no step can have written is no reason to keep the names of all that ends.
func TestLate_ATimeFarAheadIsIgnored(t *testing.T) {
	bothWays(t, 1, func(t *testing.T, f *fixture, long bool) {
		f.do("HSET", f.key(""), "late", "4000000000000")
		f.acquire("a", 1)
		f.before(long)
		f.release("a", "1")
		require.Empty(t, f.dump().Calls)
	})
}

// The names of calls of which no copy counts any more are not kept.
func TestLate_OldNamesAreForgotten(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.do("ZADD", f.key("calls"), 1, "old")
	f.resize(Call{Name: "new"}, 2, false)
	require.NotContains(t, f.dump().Calls, "old")
	require.Contains(t, f.dump().Calls, "new")
}

// A key of a wrong type fails a tend that queues somebody again before it has changed
// anything.
func TestLate_WrongTypeOfTheNamesChangesNothing(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	f.seed("ended", record{1, 1, 1, 1, "o"})
	f.do("HINCRBY", f.key(""), "held", 1)
	f.do("LPOP", f.key("available"))
	f.do("SET", f.key("calls"), "foreign")
	before := f.dump()
	_, err := f.Tend(t.Context(), Tending{Waiting: true, Requeue: []Queueing{{Waiter: waiter("w", 1), Ticket: 1}}})
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, before, f.dump())
}

// The name was lost, and with it until when copies may come; what is made anew looks out
// for them.
func TestLate_ATokenThatWasReleasedIsNotGrantedAgainThoughTheNameWasLost(t *testing.T) {
	f := newFixture(t, 2)
	const now = 1_000_000_000
	f.at(now)
	require.Equal(t, Granted, f.send("a", now+3000, true).Outcome)
	require.True(t, f.release("a", "1").held)
	f.do("DEL", f.key(""))
	f.at(now + 1000)
	require.Equal(t, Granted, f.send("b", now+4000, false).Outcome)
	require.Equal(t, Void, f.send("a", now+2950, false).Outcome)
}

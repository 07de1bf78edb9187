package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// message is what an inbox shall hold of tokens that have been served.
func message(s state, tokens ...string) string {
	var text string
	for _, token := range tokens {
		text += fmt.Sprintf("%s %d %d\n", token, s.Locked[token].Fence, s.Locked[token].End)
	}
	return text
}

// grants are those of the message.
func grants(s state, tokens ...string) []Grant {
	return ParseGrants(message(s, tokens...))
}

func TestRelease_ReturnsPermitsToTheList(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		bothWays(t, 4, func(t *testing.T, f *fixture, long bool) {
			f.acquire("a", 1)
			f.acquire("b", n)
			want := f.before(long)
			r := f.release("b", "call")
			s := want(r.Server)
			s.free("b")
			s.Released = []string{"b call"}
			assert.Equal(t, s, f.dump())
			assert.Equal(t, released{Header{Reading: r.Reading}, true, 3}, r)
		})
	}
}

func TestRelease_TheLastHolderFreesAll(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 2)
		want := f.before(long)
		r := f.release("a", "1")
		s := want(r.Server)
		s.free("a")
		s.Released = []string{"a 1"}
		assert.Equal(t, s, f.dump())
		assert.Equal(t, int64(2), r.free)
	})
}

func TestRelease_OfAMutexGoesToTheHeadOfTheQueue(t *testing.T) {
	bothWays(t, 1, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		f.as("p2").queue("b", 1)
		c := f.as("p3").queue("c", 1)
		want := f.before(long)
		r := f.release("a", "call")
		s, after := want(r.Server), f.dump()
		fence := after.Locked["b"].Fence
		assert.Greater(t, fence, c.Ticket)
		s.remove("a")
		s.place("b", record{1, r.Server + ClaimWindow.Milliseconds(), fence, r.Server, "host/1"})
		s.Queue = s.Queue[1:]
		s.Inboxes = map[string][]string{"p2": {message(s, "b")}}
		s.Released = []string{"a call"}
		assert.Equal(t, s, after)
		assert.Equal(t, released{Header{Reading: r.Reading}, true, 0}, r)
	})
}

func TestRelease_GrantsForAShorterLeaseThanTheClaimWindow(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	w := waiter("b", 1)
	w.Lease = 2 * time.Second
	f.as("p2").ask(w)
	r := f.release("a", "1")
	assert.Equal(t, r.Server+2000, f.dump().Locked["b"].End)
}

func TestRelease_AnswersTheGrantsOfItsOwnProcess(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	r := f.release("a", "1")
	s := f.dump()
	assert.Equal(t, grants(s, "b"), r.Grants)
	assert.Equal(t, s.Name["seq"], itoa(r.Grants[0].Fence))
	assert.Nil(t, s.Inboxes)
}

func TestRelease_JoinsAGrantWithAnUnreadMessage(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.as("p2").queue("c", 1)
	f.as("p2").queue("d", 1)
	f.release("a", "1")
	f.release("b", "1")
	s := f.dump()
	assert.Equal(t, map[string][]string{"p2": {message(s, "c", "d")}}, s.Inboxes)
}

func TestRelease_DropsAnUnreadMessageThatGrewTooLong(t *testing.T) {
	for length, want := range map[int]bool{65535: true, 65536: false} {
		t.Run(itoa(int64(length)), func(t *testing.T) {
			f := newFixture(t, 1)
			f.acquire("a", 1)
			f.as("p2").queue("b", 1)
			f.do("RPUSH", f.Keys.Inbox("p2"), fmt.Sprintf("%*s", length, "\n"))
			f.release("a", "1")
			s := f.dump()
			require.Len(t, s.Inboxes["p2"], 1)
			assert.Equal(t, want, len(s.Inboxes["p2"][0]) > length)
			assert.Contains(t, s.Inboxes["p2"][0], message(s, "b"))
		})
	}
}

func TestRelease_ServesSeveralWaitersOfSeveralProcesses(t *testing.T) {
	f := newFixture(t, 5)
	f.acquire("a", 5)
	f.as("p2").queue("b", 1)
	f.queue("c", 2)
	f.as("p2").queue("d", 1)
	f.as("p3").queue("e", 2)
	f.queue("f", 1)
	r := f.release("a", "1")
	s := f.dump()
	assert.Len(t, s.Locked, 3)
	assert.Equal(t, grants(s, "c"), r.Grants)
	assert.Equal(t, map[string][]string{"p2": {message(s, "b", "d")}}, s.Inboxes)
	assert.Less(t, s.Locked["b"].Fence, s.Locked["c"].Fence)
	assert.Less(t, s.Locked["c"].Fence, s.Locked["d"].Fence)
	assert.Len(t, s.Queue, 2, "e wants more than is free, and f does not overtake it")
	assert.Equal(t, int64(1), r.free)
}

func TestRelease_TheHeadWaitsUntilEnoughIsFree(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.acquire("c", 1)
	f.queue("d", 3)
	assert.Equal(t, int64(1), f.release("a", "1").free)
	assert.Equal(t, int64(2), f.release("b", "1").free)
	assert.Len(t, f.release("c", "1").Grants, 1)
	assert.Nil(t, f.dump().Available)
}

func TestRelease_OfWhatIsNotHeldChangesNothing(t *testing.T) {
	bothWays(t, 3, func(t *testing.T, f *fixture, long bool) {
		f.acquire("ended", 1)
		f.acquire("gone", 1)
		f.acquire("b", 1)
		f.queue("queued", 2)
		f.release("gone", "1")
		f.endLease("ended")
		f.before(long)
		s := f.dump()
		for _, token := range []string{"ended", "gone", "queued", "unknown"} {
			r := f.release(token, "2")
			assert.Equal(t, released{Header{Reading: r.Reading}, false, 1}, r, token)
			assert.Equal(t, s, f.dump(), token)
		}
	})
}

func TestRelease_OfWhatIsNotHeldSaysThatNoneIsFree(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 3)
	assert.Equal(t, int64(0), f.release("b", "1").free)
	f.do("HSET", f.key(""), "capacity", 2)
	f.status("")
	assert.Equal(t, int64(0), f.release("b", "1").free)
}

func TestRelease_ServesItsOwnProcessWhateverItsMark(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	f.kill("p1")
	assert.Len(t, f.release("a", "1").Grants, 1)
}

func TestRelease_OfNothingCreatesNothing(t *testing.T) {
	f := newFixture(t, 3)
	r := f.release("a", "1")
	assert.Equal(t, released{Header: Header{Reading: r.Reading}}, r)
	assert.Equal(t, state{}, f.dump())
}

func TestRelease_EndsWithTheMillisecondOfTheLease(t *testing.T) {
	f := newFixture(t, 2)
	f.at(1_000_000_000)
	a := f.acquire("a", 1)
	f.acquire("b", 1)
	f.at(a.End)
	assert.False(t, f.release("a", "1").held)
	f.at(a.End - 1)
	assert.True(t, f.release("b", "1").held)
}

func TestRelease_RepeatedAnswersTheSame(t *testing.T) {
	bothWays(t, 2, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		f.acquire("b", 1)
		f.release("a", "call")
		f.release("b", "other")
		want := f.before(long)
		again := f.release("a", "call")
		assert.Equal(t, released{Header{Reading: again.Reading}, true, 2}, again)
		s := want(again.Server)
		s.Name["fresh"] = f.dump().Name["fresh"]
		assert.Equal(t, s, f.dump())
	})
}

func TestRelease_ByAnotherCallIsNotHeld(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.release("a", "call")
	assert.False(t, f.release("a", "another").held)
	f.acquire("b", 1)
	assert.False(t, f.release("b ", "").held)
}

func TestRelease_RemembersTheLastReleases(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.release("a", "1")
	f.acquire("b", 1)
	for i := range 2047 - 1 {
		f.do("RPUSH", f.key("released"), i)
	}
	f.release("b", "1")
	require.Len(t, f.dump().Released, 2048)
	f.acquire("c", 1)
	f.release("c", "1")
	s := f.dump()
	require.Len(t, s.Released, 1024)
	assert.Equal(t, []string{"c 1", "b 1", "a 1", "0"}, s.Released[:4])
	assert.True(t, f.release("a", "1").held)
}

func TestRelease_ReclaimsAndServesAllThatIsFree(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.acquire("c", 1)
	f.queue("d", 2)
	f.endLease("b")
	r := f.release("a", "1")
	s := f.dump()
	assert.Equal(t, grants(s, "d"), r.Grants)
	assert.Len(t, s.Locked, 2)
}

func TestRelease_AfterTheCapacityWasLoweredFreesLess(t *testing.T) {
	bothWays(t, 5, func(t *testing.T, f *fixture, long bool) {
		f.acquire("a", 1)
		f.acquire("b", 3)
		f.acquire("c", 1)
		f.do("HSET", f.key(""), "capacity", 2)
		f.before(long)
		assert.Equal(t, int64(0), f.release("a", "1").free)
		f.before(long)
		assert.Equal(t, int64(1), f.release("b", "1").free)
		assert.Len(t, f.dump().Available, 1)
		f.before(long)
		assert.Equal(t, int64(2), f.release("c", "1").free)
		assert.Len(t, f.dump().Available, 2)
	})
}

// A release is sent again for about ten seconds, however short the leases are.
func TestRelease_IsKnownForAsLongAsItIsSentAgain(t *testing.T) {
	for _, long := range []bool{false, true} {
		f := newFixture(t, 1)
		f.Lease = time.Second
		f.acquire("a", 1)
		f.before(long)
		f.release("a", "call")
		_, l := f.read()
		require.Greater(t, l.ttl[f.key("released")], int64(10_000))
	}
}

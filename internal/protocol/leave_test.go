package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLeave_TakesAWaiterOutOfTheQueue(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	f.queue("c", 1)
	f.queue("d", 1)
	s := f.dump()
	h := f.leave(waiter("b", 1), waiter("d", 1))
	assert.Equal(t, Header{Reading: h.Reading}, h)
	s.Queue = s.Queue[1:2]
	assert.Equal(t, s, f.dump())
}

func TestLeave_OfTheHeadServesWhoIsBehind(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 2)
	f.queue("b", 3)
	f.as("p2").queue("c", 1)
	f.leave(waiter("b", 3))
	s := f.dump()
	assert.Contains(t, s.Locked, "c")
	assert.Nil(t, s.Queue)
	assert.Equal(t, map[string][]string{"p2": {message(s, "c")}}, s.Inboxes)
}

func TestLeave_OfAGrantedWaiterPassesThePermitOn(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 2)
	f.queue("b", 2)
	f.queue("c", 1)
	f.as("p2").release("a", "1")
	h := f.leave(waiter("b", 2))
	s := f.dump()
	assert.NotContains(t, s.Locked, "b")
	assert.Equal(t, grants(s, "c"), h.Grants)
	assert.Len(t, s.Available, 1)
}

func TestLeave_RepeatedChangesNothing(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	f.release("a", "1")
	f.leave(waiter("b", 1))
	s := f.dump()
	f.leave(waiter("b", 1))
	assert.Equal(t, s, f.dump())
}

func TestLeave_OfTheUnknownChangesNothing(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	s := f.dump()
	h := f.leave(waiter("unknown", 1))
	assert.Equal(t, Header{Reading: h.Reading}, h)
	assert.Equal(t, s, f.dump())
}

func TestLeave_OfNothingCreatesNothing(t *testing.T) {
	f := newFixture(t, 2)
	h := f.leave(waiter("a", 1))
	assert.Equal(t, Header{Reading: h.Reading}, h)
	assert.Equal(t, state{}, f.dump())
}

func TestStatus_SaysWhatIsFreeAndWhoHolds(t *testing.T) {
	f := newFixture(t, 4)
	f.acquire("a", 1)
	f.acquire("b", 2)
	s := f.dump()
	for token, want := range map[string]bool{"a": true, "b": true, "c": false, "": false} {
		free, capacity, held := f.status(token)
		assert.Equal(t, []any{int64(1), int64(4), want}, []any{free, capacity, held}, token)
	}
	assert.Equal(t, s, f.dump())
}

func TestStatus_OfNothingIsAllFreeAndCreatesNothing(t *testing.T) {
	f := newFixture(t, 4)
	h, free, capacity, held, err := f.Status(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, Header{Reading: h.Reading}, h)
	assert.Equal(t, []any{int64(4), int64(4), false}, []any{free, capacity, held})
	assert.Equal(t, state{}, f.dump())
}

func TestStatus_CountsNoEndedLease(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.endLease("a")
	free, _, held := f.status("a")
	assert.Equal(t, int64(1), free)
	assert.False(t, held)
}

func TestStatus_SaysThatNoneIsFreeAfterTheCapacityWasLowered(t *testing.T) {
	f := newFixture(t, 4)
	f.acquire("a", 3)
	f.do("HSET", f.key(""), "capacity", 2)
	free, capacity, held := f.status("a")
	assert.Equal(t, []any{int64(0), int64(2), true}, []any{free, capacity, held})
	free, _, _ = f.status("a")
	assert.Equal(t, int64(0), free)
}

// More leases have ended than one call reclaims.
func TestStatus_AnEndedLeaseHoldsNothingEvenIfNotReclaimed(t *testing.T) {
	f := newFixture(t, 600)
	f.acquire("z", 1)
	f.seedEnded(600 - 1)
	f.endLease("z")
	_, _, held := f.status("z")
	assert.False(t, held)
}

package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resize sends a resize once.
func (f *fixture) resize(call Call, by int, add bool) (Outcome, int64) {
	f.t.Helper()
	_, outcome, capacity, err := f.Resize(f.t.Context(), call, by, add)
	require.NoError(f.t, err)
	f.check()
	return outcome, capacity
}

// remove sends a delete once.
func (f *fixture) remove(call Call) Outcome {
	f.t.Helper()
	_, outcome, err := f.Delete(f.t.Context(), call)
	require.NoError(f.t, err)
	return outcome
}

func TestAcquire_OfMoreThanThereAreIsRefused(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	before := f.dump()
	a := f.ask(waiter("b", 4))
	assert.Equal(t, Acquired{Header: Header{Reading: a.Reading}, Outcome: Exceeds, Capacity: 3}, a)
	assert.Equal(t, before, f.dump())
}

func TestResize_IsDoneOnceHoweverOftenItIsSent(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	add := Call{Name: "1", Repeated: true}
	for range 3 {
		outcome, capacity := f.resize(add, 1, true)
		assert.Equal(t, Granted, outcome)
		assert.Equal(t, int64(3), capacity)
	}
	outcome, capacity := f.resize(Call{Name: "2"}, -3, true)
	assert.Equal(t, NotAvailable, outcome)
	assert.Equal(t, int64(3), capacity)
	for i, beyond := range []int{0, -1, 1_000_001} {
		outcome, capacity = f.resize(Call{Name: "beyond" + itoa(int64(i))}, beyond, false)
		assert.Equal(t, NotAvailable, outcome)
		assert.Equal(t, int64(3), capacity)
	}
	outcome, capacity = f.resize(Call{Name: "most"}, 1_000_000, false)
	assert.Equal(t, Granted, outcome)
	assert.Equal(t, int64(1_000_000), capacity)
	f.resize(Call{Name: "back"}, 3, false)
	outcome, _ = f.resize(Call{Name: "3", VoidAfter: 1}, 9, false)
	assert.Equal(t, Void, outcome)
	assert.Equal(t, "3", f.dump().Name["capacity"])
}

// The list, the count and the capacity agree at every size, whatever is held.
func TestResize_ToAnySizeIsWhole(t *testing.T) {
	f := newFixture(t, 5)
	f.acquire("a", 2)
	f.acquire("b", 2)
	for i, size := range []int{5, 1, 2, 3, 4, 9, 4, 20_000, 1} {
		f.resize(Call{Name: itoa(int64(i))}, size, false)
		free, capacity, _ := f.status("")
		assert.Equal(t, []int64{int64(max(size-4, 0)), int64(size)}, []int64{free, capacity})
	}
	f.release("a", "1")
	f.release("b", "1")
	assert.Len(t, f.dump().Available, 1)
}

func TestResize_ReclaimsAndServesInOneStep(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 2)
	f.acquire("e", 1)
	f.as("p2").queue("c", 3)
	f.endLease("e")
	f.resize(Call{Name: "1"}, 5, false)
	s := f.dump()
	assert.Contains(t, s.Locked, "c")
	assert.Empty(t, s.Available)
	f.endLease("a")
	f.resize(Call{Name: "2"}, 4, false)
	assert.Len(t, f.dump().Available, 1)
}

func TestDelete_LeavesThePlacesOfTheLiving(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.as("p3").queue("c", 1)
	f.kill("p3")
	before := f.dump()
	assert.Equal(t, Granted, f.remove(Call{Name: "1"}))
	after := f.dump()
	assert.Equal(t, state{
		Queue: before.Queue, Clients: before.Clients, Calls: after.Calls, Inboxes: map[string][]string{"p2": {"\n"}},
	}, after)
	assert.Contains(t, after.Calls, "1")
	answer := f.as("p2").tend(Tending{Waiting: true, Look: []Waiter{waiter("b", 1)}})
	require.NotEmpty(t, answer.Grants)
	assert.Equal(t, "b", answer.Grants[0].Token)
}

func TestDelete_LeavesNothingButItsNameIfNobodyWaits(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.release("a", "1")
	f.kill("p2")
	f.remove(Call{Name: "1"})
	s, l := f.read()
	assert.Equal(t, state{Calls: s.Calls}, s)
	assert.Contains(t, s.Calls, "1")
	assert.LessOrEqual(t, l.ttl[f.key("calls")], int64(10_000))
	f.acquire("c", 1)
	f.remove(Call{Name: "1"}) // its copy
	assert.Contains(t, f.dump().Locked, "c")
	assert.Equal(t, Void, f.remove(Call{Name: "2", VoidAfter: 1}))
	assert.Contains(t, f.dump().Locked, "c")
	assert.Equal(t, Granted, f.remove(Call{Name: "3"}))
	assert.Nil(t, f.dump().Locked)
}

func TestDelete_TakesNothingThatIsOfAnotherType(t *testing.T) {
	for _, suffix := range []string{"", "available", "locked", "leases", "queue", "clients", "released"} {
		f := newFixture(t, 2)
		f.acquire("a", 1)
		f.do("DEL", f.key(suffix))
		f.do("SET", f.key(suffix), "x")
		before := f.dump()
		_, _, err := f.Delete(t.Context(), Call{Name: "1"})
		assert.Equal(t, "WRONGTYPE", prefix(err), suffix)
		assert.Equal(t, before, f.dump(), suffix)
		f.deleteAll()
	}
}

func TestKind_TheOtherIsRefusedByEveryStep(t *testing.T) {
	semaphore := newFixture(t, 2)
	semaphore.acquire("a", 1)
	queue := *semaphore
	queue.Kind, queue.Keys = Queue, NewKeys(Queue, t.Name())
	for _, lost := range []string{"", "version"} {
		if lost != "" {
			semaphore.do("DEL", semaphore.key(lost))
		}
		before := semaphore.dump()
		for step, run := range queueSteps {
			assert.EqualError(t, run(&queue), "REDSEMVERSION 1", step)
		}
		assert.Equal(t, before, semaphore.dump())
	}
	semaphore.deleteAll()
	queue.signal(0, "a")
	before := queue.dump()
	for step, run := range oneStep {
		assert.EqualError(t, run(scene{semaphore, map[string]int{}, nil}), "REDSEMVERSION 1-queue", step)
	}
	assert.Equal(t, before, queue.dump())
}

func TestFetch_OfAQueueThatIsGoneMakesNone(t *testing.T) {
	f := newQueueFixture(t)
	require.NoError(t, queueSteps["fetch"](f))
	assert.Equal(t, state{}, f.dump())
}

// A copy that was repeated is known by the time until when its first may come.
func TestSignal_IsDoneOnceHoweverOftenItIsSent(t *testing.T) {
	f := newQueueFixture(t)
	f.at(1_000_000_000)
	for i, call := range []Call{{"1", 1_000_003_000, true}, {"1", 1_000_003_000, true}, {"1", 1_000_003_000, false}} {
		_, outcome, ready, err := f.Signal(t.Context(), call, 0, []string{"a"})
		require.NoError(t, err)
		assert.Equal(t, Granted, outcome, i)
		assert.Equal(t, int64(1), ready, i)
	}
	f.at(1_000_003_000)
	_, outcome, ready, err := f.Signal(t.Context(), Call{"1", 1_000_003_000, false}, 0, []string{"a"})
	require.NoError(t, err)
	assert.Equal(t, Granted, outcome)
	assert.Equal(t, int64(1), ready)
	f.at(1_000_003_001)
	_, outcome, _, err = f.Signal(t.Context(), Call{"1", 1_000_003_000, false}, 0, []string{"a"})
	require.NoError(t, err)
	assert.Equal(t, Void, outcome)
	assert.Len(t, f.dump().Jobs, 1)
}

func TestSignal_OfJobsThatNeverEndKeepsAllForEver(t *testing.T) {
	f := newQueueFixture(t)
	f.signal(testLease, "a")
	_, l := f.read()
	assert.InDelta(t, 2*testLease.Milliseconds(), l.ttl[f.key("jobs")], 1000)
	f.signal(10*testLease, "b")
	_, l = f.read()
	assert.InDelta(t, 10*testLease.Milliseconds(), l.ttl[f.key("jobs")], 1000)
	f.signal(testLease, "c")
	_, l = f.read()
	assert.InDelta(t, 10*testLease.Milliseconds(), l.ttl[f.key("jobs")], 1000, "not less")
	f.signal(0, "d")
	for _, content := range []string{"a", "b", "c"} {
		require.Equal(t, content, f.work(content).Content)
		_, _, _, err := f.Finish(t.Context(), content, "1")
		require.NoError(t, err)
	}
	f.signal(testLease, "e")
	for _, suffix := range []string{"", "version", "available", "jobs", "expiries"} {
		_, l = f.read()
		assert.Equal(t, int64(-1), l.ttl[f.key(suffix)], suffix)
	}
}

// The keys are made anew by who has a short lease, and serve one who has a long claim.
func TestServe_TheKeysOutliveTheClaim(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.remove(Call{Name: "1"})
	f.Lease = time.Second
	f.status("") // check: the keys outlive the lease of b
	assert.Contains(t, f.dump().Locked, "b")
}

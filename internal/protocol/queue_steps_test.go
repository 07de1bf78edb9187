package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueue_OutOfMemoryAStepIsDoneWhollyOrNotAtAll(t *testing.T) {
	client, conn := ownServer(t, "--maxmemory-policy", "noeviction")
	for step, run := range queueSteps {
		for _, spoil := range append([]string{"nothing"}, queueSuffixes...) {
			f := newFixtureOn(t, 0, client, conn)
			f.Kind, f.Keys = Queue, NewKeys(Queue, t.Name()+step+spoil)
			f.signal(0, "a", "b", "c")
			f.work("x")
			f.work("y")
			f.do("DEL", f.key(spoil))
			before := f.dump()
			f.do("CONFIG", "SET", "maxmemory", 1)
			err := run(f)
			f.do("CONFIG", "SET", "maxmemory", 0)
			if err != nil {
				require.Equal(t, "OOM", prefix(err), step, spoil)
				require.Equal(t, before, f.dump(), step, spoil)
			}
			require.NoError(t, queueSteps["tend"](f))
			require.Empty(t, brokenQueue(f.dump()), step, spoil)
			f.deleteAll()
		}
	}
}

// More than one call takes back at once.
func TestQueue_ManyThatEndedComeBackInOrder(t *testing.T) {
	f := newQueueFixture(t)
	f.at(1_000_000_000)
	var jobs []string
	for i := range 1200 {
		jobs = append(jobs, fmt.Sprint(i))
	}
	f.signal(0, jobs...)
	for i := range 1200 {
		f.work(fmt.Sprint("t", i))
	}
	f.at(1_000_061_000)
	var reclaimed []int64
	for more := true; more && len(reclaimed) < 10; {
		h, n, err := f.Reclaim(t.Context())
		require.NoError(t, err)
		reclaimed = append(reclaimed, n)
		more = h.More
	}
	assert.Equal(t, []int64{500, 500, 200}, reclaimed)
	assert.Equal(t, jobs, f.drain())
}

func TestQueue_ManyThatExpireEnd(t *testing.T) {
	f := newQueueFixture(t)
	f.at(1_000_000_000)
	f.signal(time.Second, make([]string, 700)...)
	f.signal(0, "last")
	f.at(1_000_001_000)
	h, ready, _, _, err := f.Status(t.Context(), "")
	require.NoError(t, err)
	assert.True(t, h.More)
	assert.Equal(t, int64(201), ready)
	assert.Equal(t, []string{"last"}, f.drain())
}

// A job whose end has come goes at that very moment, returned or not.
func TestQueue_JobsEndOnTime(t *testing.T) {
	const end = 1_000_005_000
	for _, at := range []int64{end - 1, end} {
		f := newQueueFixture(t)
		f.at(end - 5000)
		f.signal(5*time.Second, "a", "b")
		f.work("x")
		f.at(at)
		_, _, ready, err := f.Release(t.Context(), "x", "1")
		require.NoError(t, err)
		want := map[int64]int64{end - 1: 2, end: 0}[at]
		assert.Equal(t, want, ready)
		assert.Len(t, f.dump().Expiries, int(want))
		f.deleteAll()
	}
}

func TestQueue_WrongTypeFailsTheStepAndChangesNothing(t *testing.T) {
	for _, suffix := range queueSuffixes {
		for step, run := range queueSteps {
			t.Run(suffix+" "+step, func(t *testing.T) {
				f := someJobs(t)
				content := f.do("DUMP", f.key(suffix))
				f.do("DEL", f.key(suffix))
				f.do("RPUSH", f.key(suffix), "foreign")
				if suffix == "released" {
					f.do("DEL", f.key(suffix))
					f.do("SET", f.key(suffix), "foreign")
				}
				before := f.dump()
				if err := run(f); err != nil {
					assert.Equal(t, "WRONGTYPE", prefix(err), err)
					assert.Equal(t, before, f.dump())
				} else {
					assert.Contains(t, []string{"released", "calls"}, suffix, "only what is not needed may be of any type")
				}
				f.do("DEL", f.key(suffix))
				if content != nil {
					f.do("RESTORE", f.key(suffix), 0, content)
				}
				require.NoError(t, queueSteps["tend"](f))
				require.Empty(t, brokenQueue(f.dump()))
				require.Subset(t, append(f.drain(), "b"), []string{"a", "b", "c", "d"})
			})
		}
	}
}

// Who waits keeps the place alive, whatever the jobs do.
func TestQueue_PlacesLiveAsLongAsTheyAreTended(t *testing.T) {
	f := newQueueFixture(t)
	_, err := f.Acquire(t.Context(), waiter("x", 1), true, 0, false)
	require.NoError(t, err)
	f.do("RPUSH", f.key("released"), "something")
	for _, suffix := range []string{"queue", "clients", "released", "", "version"} {
		f.do("PEXPIRE", f.key(suffix), 1000)
	}
	f.goLong()
	require.NoError(t, queueSteps["tend"](f))
	_, l := f.read()
	for _, suffix := range []string{"queue", "clients", "", "version"} {
		assert.InDelta(t, 2*testLease.Milliseconds(), l.ttl[f.key(suffix)], 1000, suffix)
	}
	assert.InDelta(t, 2*testLease.Milliseconds()+10_000, l.ttl[f.key("released")], 1000)
}

// once is the fixture in the hands of consumers who want each job once at most.
func (f *fixture) once() *fixture {
	other := *f
	other.Once = true
	return &other
}

func TestQueue_AJobWantedOnceEndsWithItsLeaseOrItsRecord(t *testing.T) {
	for _, loss := range []string{"lease", "record", "none"} {
		t.Run(loss, func(t *testing.T) {
			f := newQueueFixture(t).once()
			f.at(1_000_000_000)
			f.signal(0, "a", "b")
			f.work("x")
			require.Len(t, f.dump().Expiries, 1)
			switch loss {
			case "lease":
				f.at(1_000_060_000)
			case "record":
				f.do("DEL", f.key("locked"))
			case "none":
				_, held, _, err := f.Release(t.Context(), "x", "1")
				require.NoError(t, err)
				require.True(t, held)
			}
			_, ready, all, _, err := f.Status(t.Context(), "")
			require.NoError(t, err)
			want := map[string]int64{"lease": 1, "record": 1, "none": 2}[loss]
			assert.Equal(t, []int64{want, want}, []int64{ready, all})
			assert.Empty(t, f.dump().Expiries)
		})
	}
}

// It was granted through the queue, and fetched more than once.
func TestQueue_AFetchThatIsRepeatedHandsTheSameOver(t *testing.T) {
	f := newQueueFixture(t).once()
	_, err := f.Acquire(t.Context(), waiter("x", 1), true, 0, false)
	require.NoError(t, err)
	f.signal(0, "a")
	for range 2 {
		_, end, job, err := f.Fetch(t.Context(), "x", testLease)
		require.NoError(t, err)
		assert.NotZero(t, end)
		assert.Equal(t, "a", job.Content)
		assert.Equal(t, int64(1), job.Deliveries)
	}
	assert.Len(t, f.dump().Expiries, 1)
}

// Their index is lost, and there are more than one call ends.
func TestQueue_JobsThatHaveEndedAreSkipped(t *testing.T) {
	f := newQueueFixture(t)
	f.at(1_000_000_000)
	f.signal(time.Second, make([]string, 700)...)
	f.signal(0, "good")
	f.do("DEL", f.key("expiries"))
	f.at(1_000_001_000)
	first, err := f.Acquire(t.Context(), waiter("x", 1), false, 0, false)
	require.NoError(t, err)
	assert.Equal(t, NotAvailable, first.Outcome)
	assert.True(t, first.More)
	require.Equal(t, "good", f.work("y").Content)
	assert.Len(t, f.dump().Jobs, 1)
}

// The job that never ended has ended with its lease; the one that is taken in the same step
// has an end: so have the keys.
func TestQueue_KeysEndWithTheJobsThatAreLeft(t *testing.T) {
	f := newQueueFixture(t)
	f.Once = true
	const now = 1_000_000_000
	f.at(now)
	add := func(name string, life time.Duration) {
		_, _, _, err := f.Signal(t.Context(), Call{Name: name}, life, []string{name})
		require.NoError(t, err)
	}
	take := func(token string) {
		w := waiter(token, 1)
		w.Lease = time.Second
		a, err := f.Acquire(t.Context(), w, false, 0, false)
		require.NoError(t, err)
		require.Equal(t, Granted, a.Outcome)
	}
	add("a", 0)
	take("x")
	add("b", time.Hour)
	f.at(now + 2000)
	take("y")
	_, l := f.read()
	require.Positive(t, l.ttl[f.key("")])
}

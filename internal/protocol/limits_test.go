package protocol

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// ownServer runs a server for one test.
func ownServer(t *testing.T, args ...string) (redisadapter.Redis, redis.Conn) {
	s := redistest.Start(t, args...)
	return redigoadapter.New(redistest.Pool(t, s.Addr, 0)), s.Dial(t)
}

func TestOutOfMemory_AStepIsDoneWhollyOrNotAtAll(t *testing.T) {
	client, conn := ownServer(t, "--maxmemory-policy", "noeviction")
	for state, build := range scenes {
		for step, run := range oneStep {
			for _, spoil := range append([]string{"nothing", "fresh"}, suffixes...) {
				s := build(newFixtureOn(t, 0, client, conn))
				held := s.heldByTruth()
				switch spoil {
				case "nothing":
				case "fresh":
					s.goLong()
				default:
					s.do("DEL", s.key(spoil))
				}
				before := s.dump()
				s.do("CONFIG", "SET", "maxmemory", 1)
				err := run(s)
				s.do("CONFIG", "SET", "maxmemory", 0)
				where := []any{state, step, spoil}
				if err != nil {
					require.Equal(t, "OOM", prefix(err), where...)
					require.Equal(t, before, s.dump(), where...)
				}
				if (step == "release" || step == "renew" || step == "tend") && spoil == "nothing" {
					require.NoError(t, err, where...)
				}
				s.neverAbove()
				s.becomesWhole(held)
				s.deleteAll()
			}
		}
	}
}

func TestExpiry_NothingIsLeftOfWhatNobodyUses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	f.Lease = time.Second
	for token, n := range map[string]int{"a": 2, "b": 1} {
		f.askFor(token, n)
	}
	f.as("p2").askFor("c", 2)
	f.askFor("d", 4)
	_, _, _, err := f.Release(t.Context(), "a", "1")
	require.NoError(t, err)
	_, _, _, err = f.Resize(t.Context(), Call{Name: "1"}, 5, false)
	require.NoError(t, err)
	start := time.Now()
	s, l := f.read()
	require.Len(t, l.ttl, len(suffixes)+1, "every key exists, and an inbox: %+v", s)
	for len(l.ttl) > 0 {
		for key, ttl := range l.ttl {
			require.NotEqual(t, int64(-1), ttl, key)
		}
		require.Less(t, time.Since(start), time.Minute)
		time.Sleep(10 * time.Millisecond)
		_, l = f.read()
	}
	assert.Greater(t, time.Since(start), 1500*time.Millisecond)
}

// askFor asks for permits with the lease of the fixture.
func (f *fixture) askFor(token string, n int) {
	f.t.Helper()
	_, err := f.Acquire(f.t.Context(), Waiter{Token: token, Permits: n, Lease: f.Lease, Owner: "o"}, true, 0, false)
	require.NoError(f.t, err)
}

func TestExpiry_KeysOfAUsedSemaphoreLive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.Lease = time.Second
	w := waiter("a", 1)
	w.Lease = time.Second
	f.ask(w)
	first := f.dump().Name["fresh"]
	for deadline := time.Now().Add(time.Minute); ; {
		require.True(t, time.Now().Before(deadline))
		w.Token = "b"
		f.ask(w)
		f.release("b", "1") // check: no key ends before the leases
		if f.dump().Name["fresh"] != first {
			return // the lives were renewed
		}
		time.Sleep(10 * time.Millisecond)
	}
}

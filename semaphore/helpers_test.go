package semaphore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// key is the Redis key of a test's semaphore, with a suffix.
func key(name, suffix string) string { return "semaphore:{" + name + "}" + suffix }

// queued reads the queue of a semaphore: its entries, in the order of tickets.
func queued(t *testing.T, conn redis.Conn, name string) []string {
	t.Helper()
	entries, err := redis.Strings(conn.Do("ZRANGE", key(name, ":queue"), 0, -1))
	require.NoError(t, err)
	return entries
}

// awaitQueue waits until so many are queued.
func awaitQueue(t *testing.T, conn redis.Conn, name string, n int) {
	t.Helper()
	await(t, func() bool { return len(queued(t, conn, name)) == n })
}

// await waits until something is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, 2*time.Millisecond)
}

// tokenOf is the token of a queue entry.
func tokenOf(entry string) string {
	token, _, _ := strings.Cut(entry, " ")
	return token
}

// requireAllFree checks that all permits are back, in the count and in every
// key.
func requireAllFree(t *testing.T, s *semaphore.Semaphore) {
	t.Helper()
	requireAllFreeOn(t, server.Dial(t), s)
}

// requireAllFreeOn is requireAllFree for a semaphore on a server of the test's own.
func requireAllFreeOn(t *testing.T, conn redis.Conn, s *semaphore.Semaphore) {
	t.Helper()
	capacity := s.Settings().MaxParallelResources
	await(t, func() bool {
		free, err := s.GetNumAvailableResources()
		require.NoError(t, err)
		require.LessOrEqual(t, free, capacity)
		return free == capacity && len(queued(t, conn, s.Key())) == 0
	})
	for suffix, command := range map[string]string{":locked": "HLEN", ":leases": "ZCARD", ":queue": "ZCARD"} {
		n, err := redis.Int(conn.Do(command, key(s.Key(), suffix)))
		require.NoError(t, err)
		require.Zero(t, n, suffix)
	}
	n, err := redis.Int(conn.Do("LLEN", key(s.Key(), ":available")))
	require.NoError(t, err)
	require.Equal(t, capacity, n)
}

// serverTime reads the server's clock.
func serverTime(t *testing.T, conn redis.Conn) time.Time {
	t.Helper()
	at, err := redis.Int64s(conn.Do("TIME"))
	require.NoError(t, err)
	return time.Unix(at[0], at[1]*1000)
}

// leaseEnd reads when the lease of a token ends, on the server's clock.
func leaseEnd(t *testing.T, conn redis.Conn, name, token string) time.Time {
	t.Helper()
	ms, err := redis.Int64(conn.Do("ZSCORE", key(name, ":leases"), token))
	require.NoError(t, err)
	return time.UnixMilli(ms)
}

// wants waits for n permits and says so when it holds them.
func wants(t *testing.T, s *semaphore.Semaphore, n int) <-chan *semaphore.Permit {
	got := make(chan *semaphore.Permit, 1)
	go func() {
		permit, err := s.AcquireN(context.Background(), n)
		if err != nil {
			t.Error(err)
		}
		got <- permit
	}()
	return got
}

// soon waits for what should come soon.
func soon[T any](t *testing.T, events <-chan T) T {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(patience):
		t.Fatal("it does not come")
		panic("unreachable")
	}
}

// longest is what a test allows for where less is promised: the machine may be busy.
const longest = 10 * time.Second

// measured logs what a test has found of a bound that is promised, and checks that it is
// not far above that.
func measured(t *testing.T, figure time.Duration, promised string) {
	t.Helper()
	t.Logf("measured: %v (promised: %s)", figure.Round(100*time.Microsecond), promised)
	require.Less(t, figure, longest)
}

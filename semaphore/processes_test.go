package semaphore_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// cycles is how often each goroutine locks in the test of the capacity.
var cycles = flag.Int("cycles", 1000, "lock and unlock so often in each of 60 goroutines")

func TestNeverMoreThanCapacityInsideAcrossProcesses(t *testing.T) {
	for _, capacity := range []int{1, 3, 50} {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			s := newSemaphore(t, semaphore.Settings{MaxParallelResources: capacity})
			var children []*child
			for range 3 {
				children = append(children, spawn(t, "cycle", part{
					Addr: server.Addr, Key: t.Name(), Goroutines: 20, Cycles: *cycles, Settings: s.Settings(),
				}))
			}
			for _, c := range children {
				c.finish()
			}
			requireAllFree(t, s)
		})
	}
}

func TestGrantsFollowTicketsAcrossProcesses(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	_, err := conn.Do("DEL", "order:"+t.Name())
	require.NoError(t, err)
	token, err := s.Lock()
	require.NoError(t, err)

	const waiters = 200
	var children []*child
	for _, goroutines := range []int{66, 66, 68} {
		children = append(children, spawn(t, "wait", part{Addr: server.Addr, Key: t.Name(), Goroutines: goroutines}))
	}
	// Some time out after a while, perhaps before the last is queued: so the
	// order is put together from several readings.
	order := make(map[float64]string) // by ticket
	await(t, func() bool {
		entries, err := redis.Strings(conn.Do("ZRANGE", key(t.Name(), ":queue"), 0, -1, "WITHSCORES"))
		require.NoError(t, err)
		for i := 0; i < len(entries); i += 2 {
			ticket, err := strconv.ParseFloat(entries[i+1], 64)
			require.NoError(t, err)
			order[ticket] = entries[i]
		}
		return len(order) == waiters
	})
	killed := children[2]
	killed.kill()
	for _, c := range children[:2] {
		c.order("cancel")
		for range quitters(66) { // each child has as many that are cancelled or time out
			require.Equal(t, "gave up", c.hear())
		}
	}
	rest := make(map[string]bool)
	for _, entry := range queued(t, conn, t.Name()) {
		rest[entry] = true
	}
	require.NoError(t, s.Unlock(token))
	for _, c := range children[:2] {
		require.Equal(t, "done", c.hear())
		c.finish()
	}

	served, err := redis.Strings(conn.Do("LRANGE", "order:"+t.Name(), 0, -1))
	require.NoError(t, err)
	var expected []string
	mark := fmt.Sprintf("/%d", killed.cmd.Process.Pid)
	for _, ticket := range slices.Sorted(maps.Keys(order)) {
		if entry := order[ticket]; rest[entry] && !strings.HasSuffix(entry, mark) {
			expected = append(expected, tokenOf(entry))
		}
	}
	require.Len(t, expected, 2*66-2*quitters(66))
	require.Equal(t, expected, served)
}

func TestKilledHolderIsFollowedAtTheEndOfItsLease(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: 2 * time.Second})
	conn := server.Dial(t)
	holder := spawn(t, "hold", part{Addr: server.Addr, Key: t.Name(), Settings: s.Settings()})
	token := strings.TrimPrefix(holder.hear(), "held ")
	end := leaseEnd(t, conn, t.Name(), token)

	granted := make(chan time.Time, 1)
	go func() {
		permit, err := s.Acquire(context.Background())
		granted <- serverTime(t, conn)
		if err == nil {
			permit.Release(context.Background())
		}
	}()
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	holder.kill()
	select {
	case at := <-granted:
		late := at.Sub(end)
		measured(t, late, "100ms from the end of the lease until the next holds")
		require.GreaterOrEqual(t, late, time.Duration(0))
		require.Less(t, late, 2*time.Second) // promised: 100 ms; the machine may be busy
	case <-time.After(patience):
		t.Fatal("not granted")
	}
	requireAllFree(t, s)
}

func TestKilledWaiterHoldsUpNobodyBeyondTheClaimWindow(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	waiter := spawn(t, "hold", part{Addr: server.Addr, Key: t.Name()})
	awaitQueue(t, conn, t.Name(), 1)

	granted := make(chan error, 1)
	go func() {
		permit, err := s.Acquire(context.Background())
		if err == nil {
			_, err = permit.Release(context.Background())
		}
		granted <- err
	}()
	awaitQueue(t, conn, t.Name(), 2)
	waiter.kill()
	start := time.Now()
	require.NoError(t, s.Unlock(token)) // goes to the dead waiter, which still counts as alive
	select {
	case err := <-granted:
		require.NoError(t, err)
		measured(t, time.Since(start), "3s, the claim window, until the next holds")
		require.Less(t, time.Since(start), 8*time.Second) // promised: the claim window, 3 s
	case <-time.After(patience):
		t.Fatal("not granted")
	}
	requireAllFree(t, s)
}

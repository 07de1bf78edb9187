package semaphore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// fences collects those of grants, one after the other.
type fences struct {
	t    *testing.T
	s    *semaphore.Semaphore
	q    *semaphore.Queue
	last [2]int64 // of a permit, of a job
}

// next takes a permit and a job, and checks that their fences are greater than those
// before.
func (f *fences) next(after string) {
	f.t.Helper()
	permit, err := f.s.Acquire(context.Background())
	require.NoError(f.t, err, after)
	signal(f.t, f.q, "job")
	job := receive(f.t, f.q)
	for i, fence := range []int64{permit.Fence(), job.Fence()} {
		require.Greater(f.t, fence, f.last[i], after)
		f.last[i] = fence
	}
	permit.Release(context.Background()) // it may be lost
	job.Done(context.Background())
}

func TestBeyond4_FencesIncreaseAcrossExpiryFlushAndDelete(t *testing.T) {
	own := redistest.Start(t)
	client := adapter(t, own.Addr)
	s, err := semaphore.New("s", client, nil, semaphore.Settings{Expiration: time.Second, MaxParallelResources: 3})
	require.NoError(t, err)
	q, err := semaphore.NewQueue("q", client, nil, semaphore.QueueSettings{Visibility: time.Second})
	require.NoError(t, err)
	conn := own.Dial(t)
	f := &fences{t: t, s: s, q: q}
	f.next("nothing")
	f.next("another")
	_, err = conn.Do("FLUSHALL")
	require.NoError(t, err)
	f.next("FLUSHALL")
	require.NoError(t, s.Delete(context.Background()))
	require.NoError(t, q.Delete(context.Background()))
	f.next("Delete")
	await(t, func() bool {
		n, err := redis.Int(conn.Do("DBSIZE"))
		require.NoError(t, err)
		return n == 0
	})
	f.next("the expiry of all keys")
	_, err = conn.Do("DEL", "semaphore:{s}", "semaphore:{q}")
	require.NoError(t, err)
	f.next("an eviction")
}

// movable is a client of the server at an address that may change, as behind a sentinel.
func movable(t *testing.T, addr *atomic.Pointer[string]) redisadapter.Redis {
	pool := &redis.Pool{MaxIdle: 8, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", *addr.Load(), redis.DialConnectTimeout(time.Second))
	}}
	t.Cleanup(func() { pool.Close() })
	return redigoadapter.New(pool)
}

// A replica becomes the primary that lacks the last writes: whoever holds a permit by
// those learns that it is lost, who waits is served, and no fence comes twice.
func TestBeyond4_FencesIncreaseAcrossAFailOverThatLosesWrites(t *testing.T) {
	verifyNoLeak(t)
	primary := redistest.Start(t)
	replica := primary.Replica(t)
	var addr atomic.Pointer[string]
	client := movable(t, &addr)
	addr.Store(&primary.Addr)
	s, err := semaphore.New("s", client, nil, semaphore.Settings{Expiration: 3 * time.Second, AutoRenew: true})
	require.NoError(t, err)
	q, err := semaphore.NewQueue("q", client, nil, semaphore.QueueSettings{Visibility: 3 * time.Second})
	require.NoError(t, err)
	f := &fences{t: t, s: s, q: q}
	f.next("nothing")
	primary.AwaitReplica(t, replica)
	replica.Promote(t)

	f.next("what the replica does not know")
	held, err := s.Acquire(context.Background())
	require.NoError(t, err)
	require.Greater(t, held.Fence(), f.last[0])
	f.last[0] = held.Fence()
	next := wants(t, s, 1)
	awaitQueue(t, primary.Dial(t), "s", 1)
	primary.Kill()
	addr.Store(&replica.Addr)
	start := time.Now()

	permit := <-next
	measured(t, time.Since(start), "about a second until the next is served by the new primary")
	require.Greater(t, permit.Fence(), held.Fence())
	f.last[0] = permit.Fence()
	select {
	case <-held.Done():
		measured(t, time.Since(start), "1s, a third of Expiration, until the holder knows")
		require.ErrorIs(t, context.Cause(held.Context()), semaphore.ErrLost)
	case <-time.After(patience):
		t.Fatal("the loss is not noticed")
	}
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	f.next("the fail-over")
}

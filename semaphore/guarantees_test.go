package semaphore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/semaphore"
)

// Each row of the table of faults that the documentation promises to bear, with the fault
// itself and the time that it takes. More of them: TestLostStep, TestKilled, TestRestart,
// TestFlush, TestScriptFlush, TestParityA_Pool, TestParityC_Clocks.

// handleOn makes a handle on the semaphore named after the test, on a server of the test's
// own. Each has a pool of its own, as each process would.
func handleOn(t *testing.T, own *redistest.Server, settings ...semaphore.Settings) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(t.Name(), adapter(t, own.Addr), nil, settings...)
	require.NoError(t, err)
	return s
}

func acquire(t *testing.T, s *semaphore.Semaphore) *semaphore.Permit {
	t.Helper()
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	return permit
}

// requireInTurn waits until each has its permit, one after the other, and releases it.
func requireInTurn(t *testing.T, waiting ...<-chan *semaphore.Permit) {
	t.Helper()
	for i, got := range waiting {
		permit := soon(t, got)
		for _, later := range waiting[i+1:] {
			require.Empty(t, later)
		}
		release(t, permit)
	}
}

// queueUp has n goroutines wait for a permit, one after the other, behind those who do.
func queueUp(t *testing.T, s *semaphore.Semaphore, conn redis.Conn, n int) (waiting []<-chan *semaphore.Permit) {
	t.Helper()
	before := len(queued(t, conn, s.Key()))
	for i := range n {
		waiting = append(waiting, wants(t, s, 1))
		awaitQueue(t, conn, s.Key(), before+i+1)
	}
	return waiting
}

// requireRefused checks that a call failed because of Redis, and says on which key and
// why.
func requireRefused(t *testing.T, err error, key string, sentinel error, why string) {
	t.Helper()
	require.ErrorIs(t, err, sentinel)
	require.ErrorContains(t, err, key)
	require.Regexp(t, why, err.Error())
}

// Who holds keeps what it holds, and releases it to who waits; who comes is refused.
func TestGuarantee_ServerOutOfMemory(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	conn := own.Dial(t)
	settings := semaphore.Settings{Expiration: 3 * time.Second, AutoRenew: true}
	permit := acquire(t, handleOn(t, own, settings))
	waiting := queueUp(t, handleOn(t, own, settings), conn, 2)

	own.Full(t, true)
	full := time.Now()
	late := handleOn(t, own, settings)
	_, err := late.Lock()
	requireRefused(t, err, t.Name(), semaphore.ErrRedis, "OOM")
	require.NoError(t, late.Refresh(permit.Token()))
	for time.Since(full) < 5*time.Second { // longer than the lease, and than signs of life count
		require.NoError(t, permit.Context().Err())
		time.Sleep(10 * time.Millisecond)
	}
	require.Len(t, queued(t, conn, t.Name()), 2)
	require.Empty(t, waiting[0])
	start := time.Now()
	release(t, permit)
	requireInTurn(t, waiting...)
	measured(t, time.Since(start), "at once, until two waiters are served though the server is full")
	own.Full(t, false)
	requireAllFreeOn(t, conn, late)
}

// Jobs that are there can be worked on, which makes room; none comes.
func TestGuarantee_QueueOnAServerOutOfMemory(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	q, err := semaphore.NewQueue(t.Name(), adapter(t, own.Addr), nil, semaphore.QueueSettings{Visibility: 2 * time.Second, AutoRenew: true})
	require.NoError(t, err)
	signal(t, q, "a")
	job := receive(t, q)
	next := waitsFor(t, q)
	awaitQueue(t, own.Dial(t), t.Name(), 1)
	own.Full(t, true)
	_, err = q.Signal(context.Background(), "b")
	requireRefused(t, err, t.Name(), semaphore.ErrRedis, "OOM")
	time.Sleep(3500 * time.Millisecond) // longer than the lease, and than signs of life count
	require.NoError(t, job.Return(context.Background()))
	requireJob(t, soon(t, next), "a", 2)
	own.Full(t, false)
	requireWorking(t, q, 0, 0)
}

// A server that is no primary for a while ends no wait.
func TestGuarantee_ServerIsAReplicaForAWhile(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	conn := own.Dial(t)
	permit := acquire(t, handleOn(t, own, semaphore.Settings{Expiration: 9 * time.Second, AutoRenew: true}))
	waiting := queueUp(t, handleOn(t, own), conn, 3)
	_, err := conn.Do("REPLICAOF", "127.0.0.1", "1") // where nobody is
	require.NoError(t, err)
	late := handleOn(t, own)
	_, err = late.Lock()
	requireRefused(t, err, t.Name(), semaphore.ErrRedis, "READONLY")
	time.Sleep(3 * time.Second) // longer than the signs of life count
	require.NoError(t, permit.Context().Err())
	own.Promote(t)
	start := time.Now()
	release(t, permit)
	requireInTurn(t, waiting...)
	measured(t, time.Since(start), "about a second until three waiters are served in order")
	requireAllFreeOn(t, conn, late)
}

// What the server will refuse next time too ends the waits at once; it costs nobody a
// permit.
func TestGuarantee_RefusalInTheMidstOfAWait(t *testing.T) {
	t.Parallel()
	args, err := redistest.WithUser("../docs/security.md")
	require.NoError(t, err)
	own := redistest.Start(t, args...)
	for what, c := range map[string]struct {
		spoil, mend func(redis.Conn, string) error
		sentinel    error
		why         string
	}{
		"a right is withdrawn": {
			func(conn redis.Conn, _ string) error {
				_, err := conn.Do("ACL", "SETUSER", redistest.User, "-zrem", "-zadd")
				return err
			},
			func(conn redis.Conn, _ string) error {
				_, err := conn.Do("ACL", "SETUSER", redistest.User, "+zrem", "+zadd")
				return err
			},
			semaphore.ErrRedis, "NOPERM|can't run this command",
		},
		"a key of another type": {
			func(conn redis.Conn, name string) error {
				_, err := conn.Do("SET", key(name, ":queue"), "x")
				return err
			},
			func(conn redis.Conn, name string) error {
				_, err := conn.Do("DEL", key(name, ":queue"))
				return err
			},
			semaphore.ErrWrongType, "WRONGTYPE",
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := semaphore.New(t.Name(), userAdapter(t, own.Addr), nil)
			require.NoError(t, err)
			conn := own.Dial(t)
			permit := acquire(t, s)
			failed := make(chan error, 1)
			go func() {
				_, err := s.Acquire(context.Background())
				failed <- err
			}()
			awaitQueue(t, conn, t.Name(), 1)
			require.NoError(t, c.spoil(conn, t.Name()))
			start := time.Now()
			requireRefused(t, soon(t, failed), t.Name(), c.sentinel, c.why)
			measured(t, time.Since(start), "1s, the next sign of life, until who waits is told")
			_, err = permit.Release(context.Background())
			requireRefused(t, err, t.Name(), c.sentinel, c.why)
			require.NoError(t, c.mend(conn, t.Name()))
			require.NoError(t, s.Unlock(permit.Token()), "it is held still")
			requireAllFreeOn(t, conn, s)
		})
	}
}

// A server that stands still for longer than an attempt of a step takes.
func TestGuarantee_ServerPaused(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	conn := own.Dial(t)
	permit := acquire(t, handleOn(t, own, semaphore.Settings{Expiration: 30 * time.Second, AutoRenew: true}))
	waiting := queueUp(t, handleOn(t, own), conn, 3)
	late := handleOn(t, own)
	own.Pause(t)
	start := time.Now()
	_, err := late.Lock()
	requireRefused(t, err, t.Name(), semaphore.ErrRedis, "timeout|deadline")
	measured(t, time.Since(start), "5s, two attempts and a pause, until a call fails")
	for _, got := range waiting {
		require.Empty(t, got)
	}
	require.NoError(t, permit.Context().Err())
	own.Resume(t)
	start = time.Now()
	release(t, permit)
	requireInTurn(t, waiting...)
	measured(t, time.Since(start), "about a second until three waiters are served in order")
	requireAllFreeOn(t, conn, late) // nothing has come of the lock that failed
}

// A server that comes back without its data: who waits is queued again, in order, and who
// holds learns that it does not.
func TestGuarantee_RestartWithoutData(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	s := handleOn(t, own, semaphore.Settings{Expiration: 6 * time.Second, AutoRenew: true})
	holder := acquire(t, handleOn(t, own, s.Settings()))
	waiting := queueUp(t, s, own.Dial(t), 5)
	own.RestartEmpty(t)
	start := time.Now()
	requireInTurn(t, waiting...)
	measured(t, time.Since(start), "about a second until five waiters are served in order")
	require.Greater(t, acquire(t, s).Fence(), holder.Fence())
	soon(t, holder.Done())
	require.ErrorIs(t, context.Cause(holder.Context()), semaphore.ErrLost)
	measured(t, time.Since(start), "2s, a third of Expiration, until the holder knows")
}

// A replica takes over that knows the holder, and the first two of those who wait.
func TestGuarantee_FailOverKeepsHoldersAndOrder(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := primary.Replica(t)
	conn := primary.Dial(t)
	var addr atomic.Pointer[string]
	addr.Store(&primary.Addr)
	moving := func() *semaphore.Semaphore {
		s, err := semaphore.New(t.Name(), movable(t, &addr), nil, semaphore.Settings{Expiration: 6 * time.Second, AutoRenew: true})
		require.NoError(t, err)
		return s
	}
	s := moving()
	holder := acquire(t, s)
	waiters := moving()
	waiting := queueUp(t, waiters, conn, 2)
	primary.AwaitReplica(t, replica)
	replica.Promote(t)
	waiting = append(waiting, queueUp(t, waiters, conn, 2)...)

	primary.Kill()
	addr.Store(&replica.Addr)
	start := time.Now()
	awaitQueue(t, replica.Dial(t), t.Name(), 4)
	measured(t, time.Since(start), "about a second until all four are queued at the new primary")
	require.NoError(t, holder.Refresh(context.Background()))
	release(t, holder)
	requireInTurn(t, waiting...)
	requireAllFreeOn(t, replica.Dial(t), s)
}

// Each key in turn is lost while permits are held and waited for: the next step makes
// the state whole, and never gives what is held.
func TestGuarantee_KeyDeletedByHand(t *testing.T) {
	t.Parallel()
	own := redistest.Start(t)
	for _, suffix := range []string{"", ":version", ":available", ":locked", ":leases", ":queue", ":clients", ":released", ":calls"} {
		t.Run("K"+suffix, func(t *testing.T) {
			conn := own.Dial(t)
			s, third := handleOn(t, own, two), handleOn(t, own, two)
			token, permit := lock(t, s), acquire(t, s)
			waiting := queueUp(t, handleOn(t, own, two), conn, 3)
			_, err := conn.Do("DEL", key(t.Name(), suffix))
			require.NoError(t, err)
			start := time.Now()
			_, err = third.TryLock()
			require.ErrorIs(t, err, semaphore.ErrNotAvailable)
			awaitQueue(t, conn, t.Name(), 3)
			release(t, permit)
			requireInTurn(t, waiting...)
			measured(t, time.Since(start), "about a second until three waiters are served in order")
			requireFree(t, third, 1)
			requireHeld(t, third, token, true)
			require.NoError(t, s.Unlock(token))
			requireAllFreeOn(t, conn, third)
		})
	}
}

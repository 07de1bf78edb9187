package semaphore_test

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/semaphore"
)

// The rows of the table of faults that befall processes and their links.

// through makes a handle on the semaphore named after the test, on the shared server, by
// a link that may have faults.
func through(t *testing.T, settings ...semaphore.Settings) (*semaphore.Semaphore, *faultproxy.Proxy) {
	t.Helper()
	proxy := faultproxy.Start(t, server.Addr)
	s, err := semaphore.New(t.Name(), userAdapter(t, proxy.Addr()), nil, settings...)
	require.NoError(t, err)
	return s, proxy
}

// fill gives the pool of a handle many idle connections.
func fill(t *testing.T, s *semaphore.Semaphore, proxy *faultproxy.Proxy) {
	t.Helper()
	const many = 20
	proxy.Stall(true)
	var asking sync.WaitGroup
	for range many {
		asking.Go(func() {
			if _, err := s.GetNumAvailableResources(); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, func() bool { return proxy.Connections() >= many })
	proxy.Stall(false)
	asking.Wait()
}

// stop pauses a child process, as a machine that sleeps; its answers to what it is told
// meanwhile come when it goes on.
func (c *child) stop() { c.signal(syscall.SIGSTOP) }

// resume lets it go on.
func (c *child) resume() { c.signal(syscall.SIGCONT) }

func (c *child) signal(signal syscall.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(signal))
}

func TestGuarantee_WaiterKilledJustAfterItsGrant(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t)
	token := lock(t, s)
	waiter := spawn(t, "hold", part{Addr: server.Addr, Key: t.Name()})
	conn := server.Dial(t)
	awaitQueue(t, conn, t.Name(), 1)
	next := queueUp(t, s, conn, 1)[0]
	require.NoError(t, s.Unlock(token))
	require.True(t, strings.HasPrefix(waiter.hear(), "held "))
	waiter.kill()
	start := time.Now()
	permit := soon(t, next)
	measured(t, time.Since(start), "3s, the claim window, until the next holds")
	release(t, permit)
	requireAllFree(t, s)
}

// It is cancelled when it holds in Redis and has not heard of that.
func TestGuarantee_WaiterCanceledWhileItIsGranted(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t)
	conn := server.Dial(t)
	token := lock(t, s)
	far, proxy := through(t)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := far.Acquire(ctx)
		failed <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	next := queueUp(t, s, conn, 1)[0]
	proxy.Stall(true)
	require.NoError(t, s.Unlock(token))
	awaitQueue(t, conn, t.Name(), 1)
	require.Empty(t, next, "the other is granted, and has not heard of it")
	start := time.Now()
	cancel()
	require.ErrorIs(t, soon(t, failed), semaphore.ErrCanceled)
	measured(t, time.Since(start), "100ms until a cancelled call returns, whatever the link does")
	proxy.Stall(false)
	start = time.Now()
	permit := soon(t, next)
	took := time.Since(start)
	measured(t, took, "at once, until the next holds when the link is back")
	require.Less(t, took, 2*time.Second, "no lease has to end for that")
	release(t, permit)
	requireAllFree(t, s)
}

// A holder that stands still for longer than its lease lasts.
func TestGuarantee_HolderPausedBeyondItsLease(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t, semaphore.Settings{Expiration: 2 * time.Second, AutoRenew: true})
	conn := server.Dial(t)
	holder := spawn(t, "watch", part{Addr: server.Addr, Key: t.Name(), Settings: s.Settings()})
	token := strings.TrimPrefix(holder.hear(), "held ")
	next := queueUp(t, s, conn, 1)[0]
	holder.order("ask")
	require.Equal(t, "true", holder.hear())
	holder.stop()
	end := leaseEnd(t, conn, t.Name(), token)
	permit := soon(t, next)
	late := serverTime(t, conn).Sub(end)
	measured(t, late, "100ms from the end of the lease until the next holds")
	holder.order("ask") // it reads that the moment it goes on
	start := time.Now()
	holder.resume()
	require.Equal(t, "false", holder.hear(), "it believes that it holds what it lost")
	holder.order("await")
	require.Equal(t, "false", holder.hear())
	measured(t, time.Since(start), "at once, until who was paused knows of its loss")
	require.Greater(t, permit.Fence(), int64(0))
	require.NoError(t, permit.Context().Err())
	release(t, permit)
	requireAllFree(t, s)
}

// A waiter that stands still when it is granted, for longer than the claim window: it
// does not use what it was granted, and gets another permit in its turn.
func TestGuarantee_WaiterPausedBeyondTheClaimWindow(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t)
	conn := server.Dial(t)
	token := lock(t, s)
	waiter := spawn(t, "hold", part{Addr: server.Addr, Key: t.Name()})
	awaitQueue(t, conn, t.Name(), 1)
	place := queued(t, conn, t.Name())[0]
	next := queueUp(t, s, conn, 1)[0]
	waiter.stop()
	start := time.Now()
	require.NoError(t, s.Unlock(token))
	permit := soon(t, next)
	measured(t, time.Since(start), "3s, the claim window, until the next holds")
	waiter.resume()
	awaitQueue(t, conn, t.Name(), 1)
	require.Equal(t, place, queued(t, conn, t.Name())[0], "it is queued again")
	require.Empty(t, waiter.lines, "it does not hold")
	start = time.Now()
	release(t, permit)
	require.Equal(t, "held "+tokenOf(place), waiter.hear())
	measured(t, time.Since(start), "at once, until who was paused holds in its turn")
	waiter.finish()
	requireAllFree(t, s)
}

// All connections of a process that waits end, and it is not told.
func TestGuarantee_HalfOpenLinkKeepsThePlace(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t)
	conn := server.Dial(t)
	token := lock(t, s)
	far, proxy := through(t)
	fill(t, far, proxy)
	first := queueUp(t, far, conn, 1)[0]
	second := queueUp(t, s, conn, 1)[0]
	proxy.HalfOpen()
	start := time.Now()
	require.NoError(t, s.Unlock(token)) // the news goes nowhere
	requireInTurn(t, first, second)
	measured(t, time.Since(start), "3s, the claim window, until who was cut off in silence holds")
	requireAllFree(t, s)
}

// A holder all of whose connections end without its being told keeps what it holds.
func TestGuarantee_HalfOpenLinkKeepsTheLease(t *testing.T) {
	t.Parallel()
	far, proxy := through(t, semaphore.Settings{Expiration: 6 * time.Second, AutoRenew: true})
	permit := acquire(t, far)
	fill(t, far, proxy)
	before := permit.Deadline()
	proxy.HalfOpen()
	start := time.Now()
	await(t, func() bool { return permit.Deadline().After(before) || permit.Context().Err() != nil })
	require.NoError(t, permit.Context().Err())
	measured(t, time.Since(start), "6s, the lease, until it is renewed by another connection")
	release(t, permit)
	requireAllFree(t, far)
}

// A link on which bytes trickle is slow, and no more than that.
func TestGuarantee_LinkThatDrips(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t)
	conn := server.Dial(t)
	far, proxy := through(t)
	require.NoError(t, far.Unlock(lock(t, far))) // the server knows the scripts
	proxy.Drip(100, 10*time.Millisecond)         // 10 kB a second
	start := time.Now()
	token := lock(t, far)
	require.NoError(t, far.Unlock(token))
	alone := time.Since(start)
	measured(t, alone, "two round trips of a few hundred bytes at 10 kB/s")
	require.GreaterOrEqual(t, alone, 100*time.Millisecond, "it drips")

	token = lock(t, s)
	first := queueUp(t, far, conn, 1)[0]
	second := queueUp(t, s, conn, 1)[0]
	time.Sleep(4 * time.Second) // longer than a sign of life counts
	start = time.Now()
	require.NoError(t, s.Unlock(token))
	requireInTurn(t, first, second)
	measured(t, time.Since(start), "two commands at 10 kB/s until two waiters are served in order")
	requireAllFree(t, s)
}

// A link that is too slow for any step: a clear error, and nothing comes of it later.
func TestGuarantee_LinkThatIsTooSlow(t *testing.T) {
	t.Parallel()
	s := newSemaphore(t)
	far, proxy := through(t)
	require.NoError(t, far.Unlock(lock(t, far)))
	proxy.Drip(1, 10*time.Millisecond) // 100 bytes a second
	start := time.Now()
	_, err := far.Lock()
	requireRefused(t, err, t.Name(), semaphore.ErrRedis, "timeout|deadline")
	measured(t, time.Since(start), "5s, two attempts and a pause, until a call fails")
	proxy.Drip(0, 0)
	requireAllFree(t, s)
	require.NoError(t, far.Unlock(lock(t, far)))
}

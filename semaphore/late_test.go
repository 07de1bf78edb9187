package semaphore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// hooked is a client of which a test decides about each step: run sends it, when
// and as often as the test likes.
type hooked struct {
	redisadapter.Redis
	hook func(ctx context.Context, step string, args []string, run func() (any, error)) (any, error)
}

func (h *hooked) Eval(ctx context.Context, s *redisadapter.Script, keys, args []string) (any, error) {
	return h.hook(ctx, stepOf(s), args, func() (any, error) {
		return h.Redis.Eval(context.WithoutCancel(ctx), s, keys, args)
	})
}

// Identity tells hooked clients apart.
func (h *hooked) Identity() any { return h }

// stepOf knows a step by a line that only it has.
func stepOf(s *redisadapter.Script) string {
	for step, line := range map[string]string{
		"acquire": "local outcome, first",
		"tend":    "local renewals, leavers",
		"release": "local token, call",
		"renew":   "tonumber(ARGV[i + 1]))",
		"leave":   "leave(ARGV[i]",
		"resize":  "local wanted, outcome",
		"delete":  "redis.call('UNLINK', key)",
		"signal":  "for i = 8, #ARGV",
		"fetch":   "tonumber(ARGV[5]), ARGV[6])",
		"inspect": "local holders, waiters =",
		"reclaim": "local reclaimed = begin()",
	} {
		if strings.Contains(s.Source(), line) {
			return step
		}
	}
	return "status"
}

// errReset is what a broken connection gives.
var errReset = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}

// hookedSemaphore is a handle whose steps go through a hook, on the shared server.
func hookedSemaphore(t *testing.T, hook func(ctx context.Context, step string, args []string, run func() (any, error)) (any, error),
	settings ...semaphore.Settings,
) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(t.Name(), &hooked{adapter(t, server.Addr), hook}, nil, settings...)
	require.NoError(t, err)
	return s
}

func TestAcquireThatComesAgainAfterTheUnlockGrantsNothing(t *testing.T) {
	verifyNoLeak(t)
	var armed atomic.Bool
	var late sync.WaitGroup
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "acquire" && armed.Swap(false) {
			late.Go(func() { time.Sleep(300 * time.Millisecond); run() })
			return nil, errReset
		}
		return run()
	})
	for range 2 { // before anything is known of the server's clock, and after
		armed.Store(true)
		token, err := s.Lock()
		require.NoError(t, err)
		require.NoError(t, s.Unlock(token))
		late.Wait()
		held, err := s.IsResourceLocked(token)
		require.NoError(t, err)
		require.False(t, held)
		requireAllFree(t, s)
	}
}

func TestAcquireThatComesAfterItsSenderGaveUpIsGivenBack(t *testing.T) {
	verifyNoLeak(t)
	var late sync.WaitGroup
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "acquire" {
			late.Go(func() { time.Sleep(1500 * time.Millisecond); run() })
			return nil, errReset
		}
		return run()
	})
	_, err := s.Lock()
	require.ErrorIs(t, err, semaphore.ErrRedis)
	late.Wait()
	requireAllFree(t, s) // long before the end of the lease, a minute
	await(t, func() bool { return semaphore.LiveHubs() == 0 })
}

func TestPlacesLeftWhileCutOffHoldUpNobody(t *testing.T) {
	proxy := faultproxy.Start(t, server.Addr)
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	s, err := semaphore.New(t.Name(), adapter(t, proxy.Addr()), nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var canceled sync.WaitGroup
	for range 5 {
		canceled.Go(func() { s.Acquire(ctx) })
	}
	awaitQueue(t, server.Dial(t), t.Name(), 5)
	proxy.Refuse(true)
	cancel()
	canceled.Wait()
	time.Sleep(5 * time.Second) // the leaves are given up
	proxy.Refuse(false)
	got := wants(t, s, 1)
	time.Sleep(1500 * time.Millisecond) // it waits and tends
	start := time.Now()
	require.NoError(t, holder.Unlock(token))
	permit := <-got
	require.Less(t, time.Since(start), 3*time.Second, "less than one claim window, let alone five")
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
}

func TestTendThatComesLateQueuesNobodyAgain(t *testing.T) {
	own := redistest.Start(t)
	conn := own.Dial(t)
	var armed atomic.Bool
	var late sync.WaitGroup
	h := &hooked{Redis: adapter(t, own.Addr)}
	h.hook = func(_ context.Context, step string, args []string, run func() (any, error)) (any, error) {
		if step == "tend" && args[6] != "0" && armed.Swap(false) { // it queues somebody again
			late.Go(func() { time.Sleep(4 * time.Second); run() })
			return nil, errReset
		}
		return run()
	}
	s, err := semaphore.New("key", h, nil)
	require.NoError(t, err)
	token, err := s.Lock()
	require.NoError(t, err)
	waiters := lineUp(t, s, conn, 8)
	armed.Store(true)
	_, err = conn.Do("DEL", key("key", ":queue"))
	require.NoError(t, err)
	awaitQueue(t, conn, "key", 8)
	require.NoError(t, s.Unlock(token))
	waiters.requireInOrder(t)
	late.Wait()
	require.Empty(t, queued(t, conn, "key"))
}

func TestWaiterWhoseAcquireHangsKeepsItsPlace(t *testing.T) {
	var calls atomic.Int32
	s := hookedSemaphore(t, func(ctx context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "acquire" && calls.Add(1) == 1 {
			run()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return run()
	})
	conn := server.Dial(t)
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	first := wants(t, s, 1)
	awaitQueue(t, conn, t.Name(), 1)
	second := wants(t, newSemaphore(t), 1) // of another process, so to say
	await(t, func() bool { return calls.Load() == 2 })
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, holder.Unlock(token))
	permit := <-first
	require.Empty(t, second)
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	_, err = (<-second).Release(context.Background())
	require.NoError(t, err)
}

func TestCancelDuringTheConfirmationOfALock(t *testing.T) {
	confirming := make(chan struct{}, 10)
	s := hookedSemaphore(t, func(ctx context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "renew" {
			confirming <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return run()
	})
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := s.LockContext(ctx)
		failed <- err
	}()
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	require.NoError(t, holder.Unlock(token))
	<-confirming
	start := time.Now()
	cancel()
	require.ErrorIs(t, <-failed, semaphore.ErrCanceled)
	require.Less(t, time.Since(start), 1500*time.Millisecond, "not the whole confirmation is awaited")
	requireAllFree(t, holder)
}

func TestTryLockEndsThoughTheLinkIsSlowerThanTheLease(t *testing.T) {
	s := hookedSemaphore(t, func(_ context.Context, _ string, _ []string, run func() (any, error)) (any, error) {
		reply, err := run()
		time.Sleep(1100 * time.Millisecond)
		return reply, err
	}, semaphore.Settings{Expiration: time.Second})
	token, err := s.TryLock()
	require.Error(t, err)
	require.Empty(t, token)
}

func TestRefreshRevivesNoPermitThatIsLost(t *testing.T) {
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "acquire" { // a slow request: the lease outlives what the process knows of
			time.Sleep(900 * time.Millisecond)
		}
		return run()
	}, semaphore.Settings{Expiration: 2 * time.Second})
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	<-permit.Done()
	require.ErrorIs(t, permit.Refresh(context.Background()), semaphore.ErrNotHeld)
	time.Sleep(1100 * time.Millisecond)
	held, err := s.IsResourceLocked(permit.Token())
	require.NoError(t, err)
	require.False(t, held)
}

func TestReleaseWhoseReplyIsLostSucceedsAndHandsOnAtOnce(t *testing.T) {
	var armed atomic.Bool
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		reply, err := run()
		if step == "release" && armed.Swap(false) {
			return nil, errReset
		}
		return reply, err
	})
	first, err := s.Acquire(context.Background())
	require.NoError(t, err)
	next := wants(t, s, 1)
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	armed.Store(true)
	_, err = first.Release(context.Background())
	require.NoError(t, err)
	_, err = (<-next).Release(context.Background())
	require.NoError(t, err)

	token, err := s.Lock()
	require.NoError(t, err)
	armed.Store(true)
	require.NoError(t, s.Unlock(token))
	require.ErrorIs(t, s.Unlock(token), semaphore.ErrNotHeld)
	requireAllFree(t, s)
}

func TestServerThatIsFullForAWhileEndsNoWait(t *testing.T) {
	var full atomic.Bool
	s := hookedSemaphore(t, func(_ context.Context, _ string, _ []string, run func() (any, error)) (any, error) {
		if full.Load() {
			return nil, &redisadapter.ReplyError{Message: "ERR max number of clients reached"}
		}
		return run()
	})
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	got := wants(t, s, 1)
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	full.Store(true)
	time.Sleep(1500 * time.Millisecond) // a tend is refused meanwhile
	full.Store(false)
	require.NoError(t, holder.Unlock(token))
	_, err = (<-got).Release(context.Background())
	require.NoError(t, err)
}

// A tend that would queue a waiter again hangs; the waiter leaves; then the tend comes.
func TestTendThatFailsLeavesNoPlaceOfWhoHasLeft(t *testing.T) {
	var armed atomic.Bool
	hung := make(chan struct{})
	var late sync.WaitGroup
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	s := hookedSemaphore(t, func(_ context.Context, step string, args []string, run func() (any, error)) (any, error) {
		if step == "tend" && args[6] != "0" && armed.Swap(false) { // it queues somebody again
			late.Go(func() { time.Sleep(600 * time.Millisecond); run() })
			close(hung)
			time.Sleep(300 * time.Millisecond)
			return nil, errReset
		}
		return run()
	})
	conn := server.Dial(t)
	stays := wants(t, s, 1)
	awaitQueue(t, conn, t.Name(), 1)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { _, err := s.Acquire(ctx); left <- err }()
	awaitQueue(t, conn, t.Name(), 2)
	armed.Store(true)
	_, err = conn.Do("ZREM", key(t.Name(), ":queue"), queued(t, conn, t.Name())[1])
	require.NoError(t, err)
	<-hung
	cancel()
	require.ErrorIs(t, <-left, semaphore.ErrCanceled)
	late.Wait()
	awaitQueue(t, conn, t.Name(), 1)
	require.NoError(t, holder.Unlock(token))
	_, err = (<-stays).Release(context.Background())
	require.NoError(t, err)
}

package redsem_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// requireFree checks that a mutex can be had at once.
func requireFree(t *testing.T, key string) {
	t.Helper()
	s, err := semaphore.New(key, redigoadapter.New(redistest.Pool(t, server.Addr, 0)), nil)
	require.NoError(t, err)
	token, err := s.TryLock()
	require.NoError(t, err)
	require.NoError(t, s.Unlock(token))
}

func TestWithMutexRunsCodeAloneAndUnlocks(t *testing.T) {
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	inside, most, runs := 0, 0, 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := redsem.WithMutex(t.Name(), client, nil, func() {
				inside++ // the mutex guards it: the race detector agrees
				runs++
				most = max(most, inside)
				inside--
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, most)
	require.Equal(t, 20, runs)
	requireFree(t, t.Name())
}

func TestWithMutexUnlocksOnPanicWhichGoesOn(t *testing.T) {
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	require.PanicsWithValue(t, "trouble", func() {
		redsem.WithMutex(t.Name(), client, nil, func() { panic("trouble") })
	})
	requireFree(t, t.Name())
	require.PanicsWithValue(t, "trouble", func() {
		redsem.WithMutexContext(context.Background(), t.Name(), client, nil, func(context.Context) error { panic("trouble") })
	})
	requireFree(t, t.Name())
}

func TestWithMutexRunsNothingUnlocked(t *testing.T) {
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	s, err := semaphore.New(t.Name(), client, nil)
	require.NoError(t, err)
	token, err := s.Lock()
	require.NoError(t, err)
	defer s.Unlock(token)
	never := func() { t.Error("the code ran") }
	failing := func(context.Context) error { never(); return nil }

	err = redsem.WithMutex(t.Name(), client, nil, never, redsem.Settings{TryLockTimeout: time.Second})
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = redsem.WithMutexContext(ctx, t.Name(), client, nil, failing)
	require.ErrorIs(t, err, semaphore.ErrCanceled)

	require.ErrorIs(t, redsem.WithMutex("", client, nil, never), semaphore.ErrInvalidArgument)
	require.ErrorIs(t, redsem.WithMutex("k", nil, nil, never), semaphore.ErrInvalidArgument)
	require.ErrorIs(t, redsem.WithMutex("k", client, nil, nil), semaphore.ErrInvalidArgument)
	require.ErrorIs(t, redsem.WithMutex("k", client, nil, never, redsem.Settings{LockAttempts: -1}), semaphore.ErrInvalidSettings)
	require.ErrorIs(t, redsem.WithMutex("k", client, nil, never, redsem.Settings{}, redsem.Settings{}), semaphore.ErrInvalidSettings)
	require.ErrorIs(t, redsem.WithMutexContext(context.Background(), "k", client, nil, nil), semaphore.ErrInvalidArgument)
	require.ErrorIs(t, redsem.WithMutexContext(context.Background(), "", client, nil, failing), semaphore.ErrInvalidArgument)
}

func TestWithMutexContextHandsTheErrorOn(t *testing.T) {
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	trouble := errors.New("trouble")
	err := redsem.WithMutexContext(context.Background(), t.Name(), client, nil, func(ctx context.Context) error {
		require.NoError(t, ctx.Err())
		return trouble
	})
	require.Equal(t, trouble, err)
	requireFree(t, t.Name())
}

func TestWithMutexContextEndsWithTheLease(t *testing.T) {
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	err := redsem.WithMutexContext(context.Background(), t.Name(), client, nil, func(ctx context.Context) error {
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), semaphore.ErrLost)
		return ctx.Err()
	}, redsem.Settings{Expiration: time.Second})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, semaphore.ErrLost)
}

func TestWithMutexTellsThatTheLeaseEndedWhileTheCodeRan(t *testing.T) {
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	code := func() { time.Sleep(1300 * time.Millisecond) }
	err := redsem.WithMutex(t.Name(), client, nil, code, redsem.Settings{Expiration: time.Second})
	require.ErrorIs(t, err, semaphore.ErrLost)
	require.ErrorIs(t, err, semaphore.ErrNotHeld)

	require.NoError(t, redsem.WithMutex(t.Name(), client, nil, code, redsem.Settings{Expiration: time.Second, AutoRenew: true}))
}

func TestThousandGoroutinesNeedTwoBlockedConnectionsAndAnyPool(t *testing.T) {
	for _, size := range []int{1, 8} {
		before := goleak.IgnoreCurrent()
		own := redistest.Start(t)
		conn := own.Dial(t)
		pool := redistest.NewPool(own.Addr, size)
		var ran atomic.Int64
		var blocked, all int
		var wg sync.WaitGroup
		gate := make(chan struct{})
		for range 1000 {
			wg.Go(func() {
				// An adapter for each, as a careless caller would have it.
				err := redsem.WithMutex("key", redigoadapter.New(pool), nil, func() {
					if ran.Add(1) == 1 {
						<-gate
					}
				}, redsem.Settings{Expiration: 5 * time.Minute, TryLockTimeout: 5 * time.Minute})
				if err != nil {
					t.Error(err)
				}
			})
		}
		count := func() {
			list, err := redis.String(conn.Do("CLIENT", "LIST"))
			require.NoError(t, err)
			blocked = max(blocked, strings.Count(list, "cmd=blpop"))
			all = max(all, strings.Count(list, " fd=")-1) // one is the test's own
		}
		require.Eventually(t, func() bool {
			count()
			n, err := redis.Int(conn.Do("ZCARD", "semaphore:{key}:queue"))
			require.NoError(t, err)
			return n == 999
		}, time.Minute, 10*time.Millisecond)
		close(gate)
		require.Eventually(t, func() bool { count(); return ran.Load() == 1000 }, 2*time.Minute, 10*time.Millisecond)
		wg.Wait()
		t.Logf("pool of %d: %d connections, %d of them blocked", size, all, blocked)
		require.LessOrEqual(t, blocked, 2)
		require.Positive(t, blocked)
		require.LessOrEqual(t, all, size+2)
		pool.Close()
		conn.Close()
		own.Close()
		goleak.VerifyNone(t, before)
	}
}

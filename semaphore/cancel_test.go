package semaphore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestCancelAtAnyMomentLosesAndDoublesNothing(t *testing.T) {
	for name, capacity := range map[string]int{"mutex": 1, "semaphore": 3} {
		t.Run(name, func(t *testing.T) {
			verifyNoLeak(t)
			s := newSemaphore(t, semaphore.Settings{MaxParallelResources: capacity})
			var inside, granted, canceled atomic.Int64
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					for range 200 {
						cancelAtRandom(t, s, i%2 == 0, &inside, &granted, &canceled)
					}
				})
			}
			wg.Wait()
			t.Logf("%d granted, %d canceled", granted.Load(), canceled.Load())
			require.Positive(t, granted.Load())
			require.Positive(t, canceled.Load())
			requireAllFree(t, s)
		})
	}
}

// cancelAtRandom waits for a permit, is cancelled at a random moment, and counts
// who is inside.
func cancelAtRandom(t *testing.T, s *semaphore.Semaphore, asToken bool, inside, granted, canceled *atomic.Int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.AfterFunc(rand.N(4*time.Millisecond), cancel)
	defer timer.Stop()
	var token string
	var err error
	if asToken {
		token, err = s.LockContext(ctx)
	} else {
		var permit *semaphore.Permit
		if permit, err = s.Acquire(ctx); err == nil {
			token = permit.Token()
			defer permit.Release(context.Background()) // ends its renewal; the token is unlocked by then
		}
	}
	if err != nil {
		canceled.Add(1)
		if ctx.Err() == nil {
			t.Errorf("failed without being cancelled: %v", err)
		}
		return
	}
	granted.Add(1)
	if n := inside.Add(1); n > int64(s.Settings().MaxParallelResources) {
		t.Errorf("%d inside", n)
	}
	time.Sleep(rand.N(time.Millisecond))
	inside.Add(-1)
	if err := s.Unlock(token); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

func TestCanceledWaitMatchesSentinelAndContextError(t *testing.T) {
	s := newSemaphore(t)
	token, err := s.Lock()
	require.NoError(t, err)
	defer s.Unlock(token)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.LockContext(ctx)
	require.ErrorIs(t, err, semaphore.ErrCanceled)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	_, err = s.LockContext(ctx)
	cancel()
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCanceledWaiterLeavesTheQueueAtOnce(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := s.LockContext(ctx)
		done <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	cancel()
	require.ErrorIs(t, <-done, semaphore.ErrCanceled)
	awaitQueue(t, conn, t.Name(), 0)
	require.NoError(t, s.Unlock(token))
	requireAllFree(t, s)
}

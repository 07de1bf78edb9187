package semaphore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/semaphore"
)

// line is a line of waiters.
type line struct {
	served chan int // each says its number when it is served
	ended  sync.WaitGroup
}

// lineUp has n goroutines wait, one after the other.
func lineUp(t *testing.T, s *semaphore.Semaphore, conn redis.Conn, n int) *line {
	t.Helper()
	l := &line{served: make(chan int, n)}
	for i := range n {
		l.ended.Go(func() {
			permit, err := s.Acquire(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			l.served <- i
			if _, err := permit.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
		awaitQueue(t, conn, s.Key(), i+1)
	}
	return l
}

// requireInOrder checks that all are served, in order.
func (l *line) requireInOrder(t *testing.T) {
	t.Helper()
	for i := range cap(l.served) {
		select {
		case who := <-l.served:
			require.Equal(t, i, who)
		case <-time.After(patience):
			t.Fatalf("only %d of %d are served", i, cap(l.served))
		}
	}
	l.ended.Wait()
}

func TestRestartWithDataKeepsLeasesAndOrder(t *testing.T) {
	verifyNoLeak(t)
	own := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s, err := semaphore.New("key", adapter(t, own.Addr), nil)
	require.NoError(t, err)
	token, err := s.Lock()
	require.NoError(t, err)
	conn := own.Dial(t)
	waiters := lineUp(t, s, conn, 10)

	own.Kill()
	own.Restart(t)
	conn = own.Dial(t)
	held, err := s.IsResourceLocked(token)
	require.NoError(t, err)
	require.True(t, held, "the holder keeps its lease")
	awaitQueue(t, conn, "key", 10)
	require.Empty(t, waiters.served)
	start := time.Now()
	require.NoError(t, s.Unlock(token))
	waiters.requireInOrder(t)
	measured(t, time.Since(start), "at once, until ten waiters are served in order after a restart")
}

func TestFlushQueuesWaitersAgainInTheirOrder(t *testing.T) {
	verifyNoLeak(t)
	own := redistest.Start(t)
	conn := own.Dial(t)
	s, err := semaphore.New("key", adapter(t, own.Addr), nil, semaphore.Settings{AutoRenew: true, Expiration: 5 * time.Second})
	require.NoError(t, err)
	holder, err := s.Acquire(context.Background())
	require.NoError(t, err)
	waiters := lineUp(t, s, conn, 10)

	_, err = conn.Do("FLUSHALL")
	require.NoError(t, err)
	start := time.Now()
	waiters.requireInOrder(t)
	measured(t, time.Since(start), "about a second until ten waiters are served in order")
	select {
	case <-holder.Done():
		measured(t, time.Since(start), "1.7s, a third of Expiration, until the holder knows")
		require.ErrorIs(t, context.Cause(holder.Context()), semaphore.ErrLost, "the holder learns of the loss")
	case <-time.After(patience):
		t.Fatal("the holder does not learn of the loss")
	}
}

func TestScriptFlushIsTransparent(t *testing.T) {
	own := redistest.Start(t)
	conn := own.Dial(t)
	s, err := semaphore.New("key", adapter(t, own.Addr), nil)
	require.NoError(t, err)
	start := time.Now()
	for range 3 {
		_, err = conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		token, err := s.Lock()
		require.NoError(t, err)
		_, err = conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.NoError(t, s.Refresh(token))
		_, err = conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.NoError(t, s.Unlock(token))
	}
	measured(t, time.Since(start), "one round trip more for each of nine calls")
}

func TestConnectionsThatAreCutLoseAndDoubleNothing(t *testing.T) {
	verifyNoLeak(t)
	own := redistest.Start(t)
	conn := own.Dial(t)
	const capacity = 2
	s, err := semaphore.New("key", adapter(t, own.Addr), nil, semaphore.Settings{MaxParallelResources: capacity})
	require.NoError(t, err)
	var inside, done, failed atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 60 {
				token, permit, err := lockEitherWay(s, i%2 == 0)
				if err != nil {
					failed.Add(1) // it gave up after several cuts in a row
					continue
				}
				if n := inside.Add(1); n > capacity {
					t.Errorf("%d inside", n)
				}
				inside.Add(-1)
				if permit != nil {
					_, err = permit.Release(context.Background())
				} else {
					err = s.Unlock(token)
				}
				if err != nil {
					failed.Add(1)
				}
				done.Add(1)
			}
		})
	}
	stop := make(chan struct{})
	var cuts sync.WaitGroup
	cuts.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				conn.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
		}
	})
	wg.Wait()
	close(stop)
	cuts.Wait()
	t.Logf("%d cycles, %d failed calls", done.Load(), failed.Load())
	require.Positive(t, done.Load())
	if failed.Load() == 0 {
		free, err := s.GetNumAvailableResources()
		require.NoError(t, err)
		require.Equal(t, capacity, free, "no lease is left to run out")
	}
}

func lockEitherWay(s *semaphore.Semaphore, asToken bool) (string, *semaphore.Permit, error) {
	if asToken {
		token, err := s.Lock()
		return token, nil, err
	}
	permit, err := s.Acquire(context.Background())
	return "", permit, err
}

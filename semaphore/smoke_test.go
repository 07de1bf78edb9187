package semaphore_test

import (
	"context"
	"github.com/redsem/redsem/semaphore"
	"github.com/stretchr/testify/require"
	"sync"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t)
	tok, err := s.Lock()
	require.NoError(t, err)
	n, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 0, n)
	_, err = s.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	_, err = s.LockContext(ctx)
	cancel()
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	t.Log(err)
	require.NoError(t, s.Unlock(tok))
	require.ErrorIs(t, s.Unlock(tok), semaphore.ErrNotHeld)
}
func contend(t *testing.T, cap, g, cycles int, perm bool) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: cap})
	var wg sync.WaitGroup
	start := time.Now()
	for range g {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range cycles {
				if perm {
					p, err := s.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					p.Release(context.Background())
					continue
				}
				tok, err := s.Lock()
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Unlock(tok); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	d := time.Since(start)
	t.Logf("cap %d g %d permits %v: %v per cycle", cap, g, perm, d/time.Duration(g*cycles))
	n, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, cap, n)
}
func TestContend1(t *testing.T) { verifyNoLeak(t); contend(t, 1, 64, 100, false) }
func TestContend2(t *testing.T) { verifyNoLeak(t); contend(t, 1, 64, 100, true) }
func TestContend3(t *testing.T) { verifyNoLeak(t); contend(t, 32, 256, 50, true) }
func TestContend4(t *testing.T) { verifyNoLeak(t); contend(t, 1, 1, 2000, false) }

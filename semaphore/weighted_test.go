package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestAcquireNTakesAllOrNone(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 5})
	three, err := s.AcquireN(context.Background(), 3)
	require.NoError(t, err)
	require.Equal(t, 3, three.Permits())
	_, err = s.TryAcquireN(context.Background(), 3)
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	two, err := s.TryAcquireN(context.Background(), 2)
	require.NoError(t, err)
	available, err := three.Release(context.Background())
	require.NoError(t, err)
	require.Equal(t, 3, available, "a permit is released as a whole")
	_, err = two.Release(context.Background())
	require.NoError(t, err)
	requireAllFree(t, s)
}

func TestLargeRequestIsNotStarvedBySmallOnesBehindIt(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 4})
	conn := server.Dial(t)
	var held []*semaphore.Permit
	for range 4 {
		permit, err := s.Acquire(context.Background())
		require.NoError(t, err)
		held = append(held, permit)
	}
	large := wants(t, s, 4)
	awaitQueue(t, conn, t.Name(), 1)
	small := wants(t, s, 1)
	awaitQueue(t, conn, t.Name(), 2)
	for i, permit := range held {
		require.Empty(t, large)
		require.Empty(t, small, "%d permits are free, and it must not take one", i)
		_, err := permit.Release(context.Background())
		require.NoError(t, err)
		_, err = s.TryAcquire(context.Background())
		require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	}
	all := <-large
	require.Empty(t, small)
	_, err := all.Release(context.Background())
	require.NoError(t, err)
	_, err = (<-small).Release(context.Background())
	require.NoError(t, err)
	requireAllFree(t, s)
}

func TestThousandsOfPermitsAtOnce(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 20_000})
	conn := server.Dial(t)
	first, err := s.AcquireN(context.Background(), 15_000)
	require.NoError(t, err)
	next := wants(t, s, 9_000)
	awaitQueue(t, conn, t.Name(), 1)
	_, err = first.Release(context.Background())
	require.NoError(t, err)
	permit := <-next
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 11_000, free)
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	requireAllFree(t, s)
}

func TestSizesOutOfBoundsAreRefused(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 5})
	for _, n := range []int{0, -1, 1_000_001} {
		_, err := s.AcquireN(context.Background(), n)
		require.ErrorIs(t, err, semaphore.ErrInvalidArgument)
		_, err = s.TryAcquireN(context.Background(), n)
		require.ErrorIs(t, err, semaphore.ErrInvalidArgument)
	}
	for range 2 { // before the semaphore exists, and after
		_, err := s.AcquireN(context.Background(), 6)
		require.ErrorIs(t, err, semaphore.ErrExceedsCapacity)
		require.ErrorContains(t, err, "6 of 5")
		_, err = s.TryAcquireN(context.Background(), 6)
		require.ErrorIs(t, err, semaphore.ErrExceedsCapacity)
		permit, err := s.AcquireN(context.Background(), 5)
		require.NoError(t, err)
		_, err = permit.Release(context.Background())
		require.NoError(t, err)
	}
	for _, capacity := range []int{0, -1, 1_000_001} {
		require.ErrorIs(t, s.Resize(context.Background(), capacity), semaphore.ErrInvalidArgument)
	}
	requireAllFree(t, s)
}

func TestWaitForMoreThanALoweredCapacityEnds(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 5})
	conn := server.Dial(t)
	first, err := s.Acquire(context.Background())
	require.NoError(t, err)
	errs := make(chan error, 1)
	go func() {
		_, err := s.AcquireN(context.Background(), 5)
		errs <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	behind := wants(t, s, 3)
	awaitQueue(t, conn, t.Name(), 2)
	require.NoError(t, s.Resize(context.Background(), 4))
	select {
	case err := <-errs:
		require.ErrorIs(t, err, semaphore.ErrExceedsCapacity)
		require.ErrorContains(t, err, "5 of 4")
	case <-time.After(patience):
		t.Fatal("it waits for ever")
	}
	permit := <-behind
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	_, err = first.Release(context.Background())
	require.NoError(t, err)
}

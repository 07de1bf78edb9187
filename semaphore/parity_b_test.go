package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestParityB_LockWithoutLimitWithATimeoutOrWithoutWaiting(t *testing.T) {
	s := newSemaphore(t)
	token, err := s.LockContext(context.Background())
	require.NoError(t, err)
	_, err = s.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	start := time.Now()
	_, err = s.LockWithCustomTimeout(time.Second)
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	require.GreaterOrEqual(t, time.Since(start), time.Second)

	got := make(chan string, 1)
	go func() {
		token, err := s.LockContext(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- token
	}()
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	require.NoError(t, s.Unlock(token))
	require.NoError(t, s.Unlock(<-got))
}

func TestParityB_UnlockSaysHowManyAreFree(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 3})
	var permits []*semaphore.Permit
	for range 3 {
		permit, err := s.Acquire(context.Background())
		require.NoError(t, err)
		permits = append(permits, permit)
	}
	for i, permit := range permits {
		available, err := permit.Release(context.Background())
		require.NoError(t, err)
		require.Equal(t, i+1, available)
	}
}

func TestParityB_WhatExistsIsAvailableAndLocked(t *testing.T) {
	ctx := context.Background()
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	exists, err := s.Exists(ctx)
	require.NoError(t, err)
	require.False(t, exists)
	first, err := s.Lock()
	require.NoError(t, err)
	second, err := s.Lock()
	require.NoError(t, err)

	exists, err = s.Exists(ctx)
	require.NoError(t, err)
	require.True(t, exists)
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Zero(t, free)
	locked, err := s.IsResourceLocked(first)
	require.NoError(t, err)
	require.True(t, locked)
	snapshot, err := s.Inspect(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{first, second}, []string{snapshot.Holders[0].Token, snapshot.Holders[1].Token})

	require.NoError(t, s.Delete(ctx))
	exists, err = s.Exists(ctx)
	require.NoError(t, err)
	require.False(t, exists)
	locked, err = s.IsResourceLocked(first)
	require.NoError(t, err)
	require.False(t, locked)
}

// An ended token is not given back a second time, as one that was put into a list
// would be.
func TestParityB_SignalOfAnExpiredTokenMintsNoPermit(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	token, err := s.Wait()
	require.NoError(t, err)
	await(t, func() bool {
		locked, err := s.IsResourceLocked(token)
		require.NoError(t, err)
		return !locked
	})
	require.ErrorIs(t, s.Signal(token), semaphore.ErrNotHeld)
	requireAllFree(t, s)
}

// Counting permits are renewed one by one; who loses one of them is told, and the
// others go on.
func TestBeyond5_EachOfSeveralPermitsIsRenewedUntilItIsLost(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 3, Expiration: 2 * time.Second, AutoRenew: true})
	ctx := context.Background()
	var permits []*semaphore.Permit
	for range 3 {
		permit, err := s.Acquire(ctx)
		require.NoError(t, err)
		permits = append(permits, permit)
	}
	require.NoError(t, s.Unlock(permits[1].Token())) // by a foreign hand
	select {
	case <-permits[1].Done():
		require.ErrorIs(t, context.Cause(permits[1].Context()), semaphore.ErrLost)
	case <-time.After(patience):
		t.Fatal("it is not told")
	}
	first := permits[0].Deadline()
	await(t, func() bool { return permits[0].Deadline().After(first.Add(2 * time.Second)) })
	for _, permit := range []*semaphore.Permit{permits[0], permits[2]} {
		require.NoError(t, permit.Context().Err())
		_, err := permit.Release(ctx)
		require.NoError(t, err)
	}
	requireAllFree(t, s)
}

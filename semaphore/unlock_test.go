package semaphore_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestUnlockTwiceConcurrentlySucceedsOnce(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	for range 50 {
		token, err := s.Lock()
		require.NoError(t, err)
		var succeeded atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch err := s.Unlock(token); {
				case err == nil:
					succeeded.Add(1)
				case !errors.Is(err, semaphore.ErrNotHeld):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, succeeded.Load())
	}
	requireAllFree(t, s)
}

func TestUnlockAfterExpiryIsErrNotHeldAndMintsNothing(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	token, err := s.Lock()
	require.NoError(t, err)
	await(t, func() bool {
		held, err := s.IsResourceLocked(token)
		require.NoError(t, err)
		return !held
	})
	require.ErrorIs(t, s.Unlock(token), semaphore.ErrNotHeld)
	requireAllFree(t, s)

	// Nor does it take the permit from who holds it now.
	next, err := s.Lock()
	require.NoError(t, err)
	require.ErrorIs(t, s.Unlock(token), semaphore.ErrNotHeld)
	held, err := s.IsResourceLocked(next)
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, s.Unlock(next))
	requireAllFree(t, s)
}

func TestUnlockOfUnknownTokenChangesNothing(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	require.ErrorIs(t, s.Unlock(uuid.NewString()), semaphore.ErrNotHeld, "before anything exists")
	token, err := s.Lock()
	require.NoError(t, err)
	for _, unknown := range []string{uuid.NewString(), "x", "a b\nc", token + " ", "\x00"} {
		require.ErrorIs(t, s.Unlock(unknown), semaphore.ErrNotHeld, "%q", unknown)
		free, err := s.GetNumAvailableResources()
		require.NoError(t, err)
		require.Equal(t, 1, free)
	}
	require.NoError(t, s.Unlock(token))
	requireAllFree(t, s)
}

func TestTokenCanBeUnlockedByAnotherProcess(t *testing.T) {
	s := newSemaphore(t)
	token, err := s.Lock()
	require.NoError(t, err)
	other := spawn(t, "try", part{Addr: server.Addr, Key: t.Name()})
	other.order("holds " + token)
	require.Equal(t, "true", other.hear())
	other.order("unlock " + token)
	require.Equal(t, "<nil>", other.hear())
	require.ErrorIs(t, s.Unlock(token), semaphore.ErrNotHeld)
	other.finish()
	requireAllFree(t, s)
}

func TestRefreshExtendsTheLease(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: 2 * time.Second})
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	first := leaseEnd(t, conn, t.Name(), token)
	await(t, func() bool {
		require.NoError(t, s.Refresh(token))
		return leaseEnd(t, conn, t.Name(), token).Sub(first) > time.Second
	})
	require.NoError(t, s.Unlock(token))
	require.ErrorIs(t, s.Refresh(token), semaphore.ErrNotHeld)
}

func TestTokenOfLockIsGoodForTheWholeExpirationThoughItWaited(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	got := make(chan string, 1)
	go func() {
		token, err := s.Lock()
		if err != nil {
			t.Error(err)
		}
		got <- token
	}()
	awaitQueue(t, conn, t.Name(), 1)
	before := serverTime(t, conn).Truncate(time.Millisecond)
	require.NoError(t, s.Unlock(token))
	token = <-got
	left := leaseEnd(t, conn, t.Name(), token).Sub(before)
	require.GreaterOrEqual(t, left, semaphore.DefaultExpiration)
	require.NoError(t, s.Unlock(token))
	requireAllFree(t, s)
}

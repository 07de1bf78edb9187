package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// release gives a permit back.
func release(t *testing.T, permit *semaphore.Permit) {
	t.Helper()
	_, err := permit.Release(context.Background())
	require.NoError(t, err)
}

// requireFree checks how many permits are free.
func requireFree(t *testing.T, s *semaphore.Semaphore, n int) {
	t.Helper()
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, n, free)
}

// requireHeld checks whether a token holds.
func requireHeld(t *testing.T, s *semaphore.Semaphore, token string, want bool) {
	t.Helper()
	held, err := s.IsResourceLocked(token)
	require.NoError(t, err)
	require.Equal(t, want, held)
}

// lock takes a permit as a token.
func lock(t *testing.T, s *semaphore.Semaphore) string {
	t.Helper()
	token, err := s.Lock()
	require.NoError(t, err)
	return token
}

var two = semaphore.Settings{MaxParallelResources: 2}

// lostSemaphoreSteps are the steps of a semaphore.
var lostSemaphoreSteps = []lostStep{
	{"acquire that is granted", "acquire", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(two)
		l.arm()
		token := lock(t, s)
		requireFree(t, direct, 1)
		requireHeld(t, direct, token, true)
		require.NoError(t, s.Unlock(token))
		requireAllFree(t, direct)
	}},
	{"acquire that is queued", "acquire", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		l.arm()
		requireFollow(t, l, direct, token, wants(t, s, 1))
	}},
	{"try that is refused", "acquire", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		l.arm()
		_, err := s.TryLock()
		require.ErrorIs(t, err, semaphore.ErrNotAvailable)
		require.NoError(t, direct.Unlock(token))
		requireAllFree(t, direct)
	}},
	{"release while nobody waits", "release", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(two)
		held := lock(t, direct)
		permit, err := s.Acquire(context.Background())
		require.NoError(t, err)
		l.arm()
		free, err := permit.Release(context.Background())
		require.NoError(t, err)
		require.Equal(t, 1, free)
		require.ErrorIs(t, s.Unlock(permit.Token()), semaphore.ErrNotHeld)
		requireFree(t, direct, 1)
		require.NoError(t, direct.Unlock(held))
		requireAllFree(t, direct)
	}},
	{"release to who waits", "release", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, s)
		first := wants(t, direct, 1)
		awaitQueue(t, l.control, l.name, 1)
		second := wants(t, direct, 1)
		awaitQueue(t, l.control, l.name, 2)
		l.arm()
		require.NoError(t, s.Unlock(token))
		permit := soon(t, first)
		require.Empty(t, second)
		release(t, permit)
		release(t, soon(t, second))
		requireAllFree(t, direct)
	}},
	{"renew by Refresh", "renew", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, s)
		before := leaseEnd(t, l.control, l.name, token)
		l.arm()
		require.NoError(t, s.Refresh(token))
		require.True(t, leaseEnd(t, l.control, l.name, token).After(before))
		require.NoError(t, s.Unlock(token))
		require.ErrorIs(t, s.Refresh(token), semaphore.ErrNotHeld)
		requireAllFree(t, direct)
	}},
	{"renew that confirms a Lock", "renew", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		held := lock(t, direct)
		l.arm()
		got := make(chan string, 1)
		go func() {
			token, err := s.Lock()
			if err != nil {
				t.Error(err)
			}
			got <- token
		}()
		awaitQueue(t, l.control, l.name, 1)
		require.NoError(t, direct.Unlock(held))
		token := soon(t, got)
		left := leaseEnd(t, l.control, l.name, token).Sub(serverTime(t, l.control))
		require.Greater(t, left, s.Settings().Expiration/2, "the lease is a full one")
		require.NoError(t, s.Unlock(token))
		requireAllFree(t, direct)
	}},
	{"tend of who waits", "tend", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		l.arm()
		first := wants(t, s, 1)
		awaitQueue(t, l.control, l.name, 1)
		l.awaitFault()
		requireFollow(t, l, direct, token, first)
	}},
	{"tend that renews", "tend", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(semaphore.Settings{AutoRenew: true, Expiration: 6 * time.Second})
		permit, err := s.Acquire(context.Background())
		require.NoError(t, err)
		end := permit.Deadline()
		l.arm()
		await(t, func() bool { return permit.Deadline().After(end.Add(3*time.Second)) || permit.Context().Err() != nil })
		require.NoError(t, permit.Context().Err())
		release(t, permit)
		requireAllFree(t, direct)
	}},
	{"leave", "leave", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx)
			failed <- err
		}()
		awaitQueue(t, l.control, l.name, 1)
		next := wants(t, direct, 1)
		awaitQueue(t, l.control, l.name, 2)
		l.arm()
		cancel()
		require.ErrorIs(t, soon(t, failed), semaphore.ErrCanceled)
		awaitQueue(t, l.control, l.name, 1)
		require.NoError(t, direct.Unlock(token))
		release(t, soon(t, next))
		requireAllFree(t, direct)
	}},
	{"status", "status", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(two)
		token := lock(t, direct)
		l.arm()
		requireFree(t, s, 1)
		requireHeld(t, s, token, true)
		require.NoError(t, direct.Unlock(token))
	}},
	{"inspect", "inspect", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(two)
		token := lock(t, direct)
		l.arm()
		snapshot, err := s.Inspect(context.Background())
		require.NoError(t, err)
		require.Len(t, snapshot.Holders, 1)
		require.Equal(t, token, snapshot.Holders[0].Token)
		require.Equal(t, []int{2, 1}, []int{snapshot.Capacity, snapshot.Free})
		require.NoError(t, direct.Unlock(token))
	}},
	{"reclaim", "reclaim", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(two)
		token := lock(t, direct) // so that the keys live
		dying, err := semaphore.New(l.name, adapter(t, server.Addr), nil, semaphore.Settings{Expiration: time.Second})
		require.NoError(t, err)
		end := leaseEnd(t, l.control, l.name, lock(t, dying))
		await(t, func() bool { return serverTime(t, l.control).After(end) })
		l.arm()
		reclaimed, err := s.ReleaseStale(context.Background())
		require.NoError(t, err)
		if !l.done { // else the answer that counted it is the one that is lost
			require.Equal(t, 1, reclaimed)
		}
		requireFree(t, direct, 1)
		require.NoError(t, direct.Unlock(token))
		requireAllFree(t, direct)
	}},
	{"resize", "resize", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		l.arm()
		require.NoError(t, s.Resize(context.Background(), 5))
		requireFree(t, direct, 4)
		require.NoError(t, direct.Unlock(token))
		requireFree(t, direct, 5)
	}},
	{"Signal of one permit more", "resize", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		l.arm()
		require.NoError(t, s.Signal(""))
		requireFree(t, direct, 1)
		require.NoError(t, direct.Unlock(token))
		requireFree(t, direct, 2)
	}},
	{"delete", "delete", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore(two)
		before := lock(t, direct)
		l.arm()
		deleted := make(chan error, 1)
		go func() { deleted <- s.Delete(context.Background()) }()
		l.awaitFault()
		if l.done { // who comes now has nothing to do with it
			after := lock(t, direct)
			require.NoError(t, soon(t, deleted))
			requireHeld(t, direct, after, true)
			require.NoError(t, direct.Unlock(after))
		} else {
			require.NoError(t, soon(t, deleted))
		}
		requireHeld(t, direct, before, false)
		requireFree(t, direct, 2)
	}},
	{"pop of the news", "pop", func(t *testing.T, l *lossyLink) {
		s, direct := l.semaphore()
		token := lock(t, direct)
		l.arm()
		first := wants(t, s, 1)
		awaitQueue(t, l.control, l.name, 1)
		requireFollow(t, l, direct, token, first)
	}},
}

// requireFollow checks that first, who is in the line or about to join it, comes before
// another, and that both are served when token is unlocked.
func requireFollow(t *testing.T, l *lossyLink, direct *semaphore.Semaphore, token string, first <-chan *semaphore.Permit) {
	t.Helper()
	awaitQueue(t, l.control, l.name, 1)
	second := wants(t, direct, 1)
	awaitQueue(t, l.control, l.name, 2)
	start := time.Now()
	require.NoError(t, direct.Unlock(token))
	permit := soon(t, first)
	require.Empty(t, second)
	measured(t, time.Since(start), "3s, the claim window, however the link breaks")
	release(t, permit)
	release(t, soon(t, second))
	requireAllFree(t, direct)
}

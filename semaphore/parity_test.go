package semaphore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// The rows of docs/parity.md name these tests.

// Section A: the Go library that keeps tokens in a list and uses BLPOP.

func TestParityA_NewNeedsKeyAndClientOnly(t *testing.T) {
	client := adapter(t, server.Addr)
	_, err := semaphore.New("", client, nil)
	require.ErrorIs(t, err, semaphore.ErrInvalidArgument)
	_, err = semaphore.New("key", nil, nil)
	require.ErrorIs(t, err, semaphore.ErrInvalidArgument)
	s, err := semaphore.New("key", client, nil)
	require.NoError(t, err)
	require.Equal(t, "key", s.Key())
}

func TestParityA_DefaultsAndOverrides(t *testing.T) {
	client := adapter(t, server.Addr)
	s, err := semaphore.New("key", client, nil)
	require.NoError(t, err)
	d := s.Settings()
	require.Equal(t, time.Minute, d.Expiration)
	require.Equal(t, 30*time.Second, d.TryLockTimeout)
	require.Equal(t, 1, d.MaxParallelResources)
	require.Equal(t, 1, d.LockAttempts)
	require.False(t, d.AutoRenew)
	require.NotEmpty(t, d.Owner)

	s, err = semaphore.New("key", client, nil, semaphore.Settings{LockAttempts: 7})
	require.NoError(t, err)
	d.LockAttempts = 7
	require.Equal(t, d, s.Settings(), "only what is overridden differs")

	_, err = semaphore.New("key", client, nil, semaphore.Settings{}, semaphore.Settings{})
	require.ErrorIs(t, err, semaphore.ErrInvalidSettings, "a second value is not ignored")
}

func TestParityA_LockGivesUniqueTokens(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 20})
	seen := make(map[string]bool)
	for range 20 {
		token, err := s.Lock()
		require.NoError(t, err)
		require.Len(t, token, 36)
		require.False(t, seen[token])
		seen[token] = true
	}
	for token := range seen {
		held, err := s.IsResourceLocked(token)
		require.NoError(t, err)
		require.True(t, held)
		require.NoError(t, s.Unlock(token))
		held, err = s.IsResourceLocked(token)
		require.NoError(t, err)
		require.False(t, held)
	}
	requireAllFree(t, s)
}

func TestParityA_NumAvailableIsTheCapacityWhileNothingExists(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 7})
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 7, free)
	n, err := server.Dial(t).Do("EXISTS", key(t.Name(), ""))
	require.NoError(t, err)
	require.EqualValues(t, 0, n, "asking creates nothing")

	token, err := s.Lock()
	require.NoError(t, err)
	free, err = s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 6, free)
	require.NoError(t, s.Unlock(token))
}

func TestParityA_TryLockTimeoutEndsTheWait(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t, semaphore.Settings{TryLockTimeout: time.Second})
	token, err := s.Lock()
	require.NoError(t, err)
	start := time.Now()
	none, err := s.Lock()
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	require.ErrorContains(t, err, "1s")
	require.Empty(t, none, "no token comes with an error")
	require.GreaterOrEqual(t, time.Since(start), time.Second)
	require.NoError(t, s.Unlock(token))
	requireAllFree(t, s)
}

func TestParityA_LockAttemptsKeepThePlaceInTheQueue(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{TryLockTimeout: time.Second, LockAttempts: 3})
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	done := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := s.Lock()
		done <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	place := queued(t, conn, t.Name())
	for time.Since(start) < 2500*time.Millisecond {
		require.Equal(t, place, queued(t, conn, t.Name()), "the same entry all the time")
		time.Sleep(20 * time.Millisecond)
	}
	require.ErrorIs(t, <-done, semaphore.ErrTimeout)
	require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
	require.NoError(t, s.Unlock(token))
	requireAllFree(t, s)
}

func TestParityA_CustomTimeoutReplacesTryLockTimeout(t *testing.T) {
	s := newSemaphore(t)
	token, err := s.Lock()
	require.NoError(t, err)
	start := time.Now()
	_, err = s.LockWithCustomTimeout(time.Second)
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	require.GreaterOrEqual(t, time.Since(start), time.Second)
	require.NoError(t, s.Unlock(token))
}

func TestParityA_FirstSettingsOfALiveKeyWin(t *testing.T) {
	var logged []string
	var mu sync.Mutex
	log := logger.Func(func(level logger.Level, message string, fields ...any) {
		mu.Lock()
		defer mu.Unlock()
		if level == logger.Error {
			logged = append(logged, message+fmt.Sprint(fields...))
		}
	})
	client := adapter(t, server.Addr)
	first, err := semaphore.New(t.Name(), client, log, semaphore.Settings{MaxParallelResources: 2})
	require.NoError(t, err)
	second, err := semaphore.New(t.Name(), client, log, semaphore.Settings{MaxParallelResources: 5})
	require.NoError(t, err)
	token, err := first.Lock()
	require.NoError(t, err)
	another, err := second.Lock()
	require.NoError(t, err)
	_, err = second.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	require.NoError(t, first.Unlock(another))
	require.NoError(t, second.Unlock(token))
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, logged, 1, "the mismatch is logged once: %v", logged)
	require.Contains(t, logged[0], "another capacity")
}

func TestParityA_EndedLeasesAreTakenBackBeforeEachLock(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second, MaxParallelResources: 2})
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	end := leaseEnd(t, conn, t.Name(), token)
	await(t, func() bool { return serverTime(t, conn).After(end) })
	again, err := s.TryLock()
	require.NoError(t, err)
	records, err := conn.Do("HLEN", key(t.Name(), ":locked"))
	require.NoError(t, err)
	require.EqualValues(t, 1, records)
	require.NoError(t, s.Unlock(again))
	requireAllFree(t, s)
}

func TestParityA_EndedLeaseWakesWhoWaitsWithoutAnotherLock(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	_, err := s.Lock()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	token, err := s.LockContext(ctx) // waits, and nobody else calls anything
	require.NoError(t, err)
	require.NoError(t, s.Unlock(token))
}

func TestParityA_WaiterIsServedThoughTheKeysWereGone(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t)
	conn := server.Dial(t)
	_, err := s.Lock()
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := s.Lock()
		done <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	for _, suffix := range []string{"", ":version", ":available", ":locked", ":leases", ":queue", ":clients", ":released"} {
		_, err := conn.Do("DEL", key(t.Name(), suffix))
		require.NoError(t, err)
	}
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("not served")
	}
}

func TestParityA_PoolSmallerThanTheNumberOfWaitersDoesNotDeadlock(t *testing.T) {
	verifyNoLeak(t)
	for _, wait := range []bool{true, false} {
		pool := redistest.Pool(t, server.Addr, 1)
		pool.Wait = wait
		s, err := semaphore.New(t.Name(), redigoadapter.New(pool), nil)
		require.NoError(t, err)
		start := time.Now()
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				token, err := s.Lock()
				if err == nil {
					err = s.Unlock(token)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		measured(t, time.Since(start), "no deadlock of 30 waiters on one connection")
		requireAllFree(t, s)
		pool.Close()
	}
}

func TestParityA_OutcomesAreLoggedAtInfoStepsAtDebugAndNothingForNil(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	log := logger.Func(func(level logger.Level, message string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, level.String()+" "+message)
	})
	s, err := semaphore.New(t.Name(), adapter(t, server.Addr), log, semaphore.Settings{TryLockTimeout: time.Second})
	require.NoError(t, err)
	token, err := s.Lock()
	require.NoError(t, err)
	_, err = s.Lock()
	require.Error(t, err)
	require.NoError(t, s.Refresh(token))
	require.NoError(t, s.Unlock(token))
	require.Error(t, s.Unlock(token))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "info locked|debug waiting|info not locked|debug refreshed|info unlocked|info not unlocked",
		strings.Join(lines, "|"))
}

// Section D: the Node mutex. The API token that is fetched once is in
// examples/apitoken, and TestParityD_APITokenFetchedOnce there.

func TestParityD_ReleaseByWhoHoldsOnly(t *testing.T) {
	s := newSemaphore(t)
	holder, err := s.Lock()
	require.NoError(t, err)
	require.ErrorIs(t, s.Unlock("another identifier"), semaphore.ErrNotHeld)
	held, err := s.IsResourceLocked(holder)
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, s.Unlock(holder))
}

func TestParityD_WaitersBlockAndDoNotPoll(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.LockContext(ctx)
	}()
	awaitQueue(t, conn, t.Name(), 1)
	stop := monitor(t, server)
	time.Sleep(2500 * time.Millisecond)
	commands := stop()
	require.LessOrEqual(t, len(commands), 4, "a sign of life a second: %v", commands)
	cancel()
	<-done
	require.NoError(t, s.Unlock(token))
}

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

// Section C: the fair semaphore on sorted sets, with a counter.

func TestParityC_TryLockAnswersWithoutWaiting(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	for range 2 {
		_, err := s.TryLock()
		require.NoError(t, err)
	}
	token, err := s.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	require.Empty(t, token)
	require.Empty(t, queued(t, server.Dial(t), t.Name()), "a try leaves no place behind")
}

func TestParityC_ClocksThatDifferLetNobodyInAboveTheLimit(t *testing.T) {
	for _, shift := range []time.Duration{10 * time.Millisecond, -10 * time.Millisecond, time.Hour, -time.Hour} {
		t.Run(shift.String(), func(t *testing.T) {
			s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
			conn := server.Dial(t)
			first, err := s.TryLock()
			require.NoError(t, err)
			off := spawn(t, "try", part{Addr: server.Addr, Key: t.Name(), Shift: shift, Settings: s.Settings()})
			off.order("try")
			second := off.hear()
			require.Len(t, second, 36, "its clock keeps nobody out: %s", second)
			off.order("try")
			require.Contains(t, off.hear(), semaphore.ErrNotAvailable.Error(), "nor in")
			_, err = s.TryLock()
			require.ErrorIs(t, err, semaphore.ErrNotAvailable)

			// Its lease counts by the server's clock, as everybody's.
			left := leaseEnd(t, conn, t.Name(), second).Sub(serverTime(t, conn))
			require.InDelta(t, time.Minute, left, float64(20*time.Second))
			off.order("holds " + first)
			require.Equal(t, "true", off.hear())
			off.order("unlock " + second)
			require.Equal(t, "<nil>", off.hear())
			off.finish()
			require.NoError(t, s.Unlock(first))
			requireAllFree(t, s)
		})
	}
}

func TestParityC_WaitersWithClocksThatDifferAreServedInOrder(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	var order []*child
	for i, shift := range []time.Duration{time.Hour, -10 * time.Millisecond, -time.Hour, 10 * time.Millisecond} {
		order = append(order, spawn(t, "hold", part{Addr: server.Addr, Key: t.Name(), Shift: shift}))
		awaitQueue(t, conn, t.Name(), i+1)
	}
	require.NoError(t, s.Unlock(token))
	for i, c := range order {
		require.Contains(t, c.hear(), "held ")
		require.Len(t, queued(t, conn, t.Name()), len(order)-1-i)
		for _, later := range order[i+1:] {
			require.Empty(t, later.lines)
		}
		c.finish()
	}
	requireAllFree(t, s)
}

func TestParityC_LowerTicketGetsInFirst(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	served := make(chan int, 10)
	for i := range 10 {
		go func() {
			permit, err := s.Acquire(context.Background())
			served <- i
			if err == nil {
				permit.Release(context.Background())
			}
		}()
		awaitQueue(t, conn, t.Name(), i+1)
	}
	require.NoError(t, s.Unlock(token))
	for i := range 10 {
		require.Equal(t, i, <-served)
	}
	requireAllFree(t, s)
}

func TestParityC_HolderThatRunsIntoItsTimeoutIsDropped(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	token, err := s.Lock()
	require.NoError(t, err)
	await(t, func() bool {
		free, err := s.GetNumAvailableResources()
		require.NoError(t, err)
		return free == 1
	})
	require.ErrorIs(t, s.Unlock(token), semaphore.ErrNotHeld, "release says that it was not held")
	require.ErrorIs(t, s.Refresh(token), semaphore.ErrNotHeld, "an ended lease can't be revived")
}

func TestParityC_RefreshExtendsOrSaysThatItIsLost(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: 2 * time.Second})
	permit, err := s.TryAcquire(context.Background())
	require.NoError(t, err)
	before := permit.Deadline()
	await(t, func() bool {
		require.NoError(t, permit.Refresh(context.Background()))
		return permit.Deadline().Sub(before) > 100*time.Millisecond
	})
	require.NoError(t, s.Unlock(permit.Token()))
	require.ErrorIs(t, permit.Refresh(context.Background()), semaphore.ErrNotHeld)
	<-permit.Done()
	require.ErrorIs(t, context.Cause(permit.Context()), semaphore.ErrLost)
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

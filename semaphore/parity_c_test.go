package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

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
			measured(t, (time.Minute - left).Abs(), "0, but for the time since: what a lease of a minute lacks")
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

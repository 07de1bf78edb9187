package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestPermitContextEndsAtRelease(t *testing.T) {
	verifyNoLeak(t)
	type tag struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), tag{}, "value"))
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	permit, err := s.Acquire(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, permit.Context().Err(), "the permit outlives the context of the wait")
	require.Equal(t, "value", permit.Context().Value(tag{}))
	available, err := permit.Release(ctx)
	require.NoError(t, err, "an ended context does not keep the permit")
	require.Equal(t, 2, available)
	<-permit.Done()
	require.NotErrorIs(t, context.Cause(permit.Context()), semaphore.ErrLost)

	_, err = permit.Release(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotHeld)
	require.NotErrorIs(t, err, semaphore.ErrLost)
	require.ErrorIs(t, permit.Refresh(context.Background()), semaphore.ErrNotHeld)
}

func TestPermitIsLostAtTheEndOfItsLease(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	conn := server.Dial(t)
	left := time.Until(permit.Deadline())
	truth := leaseEnd(t, conn, t.Name(), permit.Token()).Sub(serverTime(t, conn))
	require.Less(t, left, truth+50*time.Millisecond) // two clocks are read one after the other
	<-permit.Done()
	require.False(t, time.Now().Before(permit.Deadline()))
	require.ErrorIs(t, context.Cause(permit.Context()), semaphore.ErrLost)
	await(t, func() bool {
		held, err := s.IsResourceLocked(permit.Token())
		require.NoError(t, err)
		return !held
	})
	_, err = permit.Release(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotHeld)
	require.ErrorIs(t, err, semaphore.ErrLost)
	requireAllFree(t, s)
}

func TestAutoRenewKeepsAPermitBeyondItsExpiration(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second, AutoRenew: true})
	conn := server.Dial(t)
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	start := permit.Deadline()
	await(t, func() bool { return permit.Deadline().Sub(start) > 3*time.Second })
	require.NoError(t, permit.Context().Err())
	require.Greater(t, leaseEnd(t, conn, t.Name(), permit.Token()), serverTime(t, conn))
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	requireAllFree(t, s)
	await(t, func() bool { return semaphore.LiveHubs() == 0 })
}

func TestAutoRenewedPermitEndsWhenRedisHasLostIt(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t, semaphore.Settings{Expiration: 3 * time.Second, AutoRenew: true})
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	require.NoError(t, s.Unlock(permit.Token())) // somebody else ends it
	select {
	case <-permit.Done():
	case <-time.After(patience):
		t.Fatal("the permit does not learn of its loss")
	}
	require.ErrorIs(t, context.Cause(permit.Context()), semaphore.ErrLost)
	require.ErrorIs(t, context.Cause(permit.Context()), semaphore.ErrNotHeld)
}

func TestPermitThatWaitedIsExtendedToTheFullLease(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t)
	conn := server.Dial(t)
	first, err := s.Acquire(context.Background())
	require.NoError(t, err)
	got := make(chan *semaphore.Permit, 1)
	go func() {
		permit, err := s.Acquire(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- permit
	}()
	awaitQueue(t, conn, t.Name(), 1)
	_, err = first.Release(context.Background())
	require.NoError(t, err)
	permit := <-got
	require.Less(t, time.Until(permit.Deadline()), 4*time.Second, "the claim window at first")
	await(t, func() bool { return time.Until(permit.Deadline()) > 30*time.Second })
	require.NoError(t, permit.Context().Err())
	require.Greater(t, leaseEnd(t, conn, t.Name(), permit.Token()).Sub(serverTime(t, conn)), 30*time.Second)
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	requireAllFree(t, s)
}

func TestFencesIncreaseFromPermitToPermit(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 3})
	var last int64
	for range 20 {
		permit, err := s.TryAcquire(context.Background())
		require.NoError(t, err)
		require.Greater(t, permit.Fence(), last)
		last = permit.Fence()
		if last%2 == 0 {
			_, err = permit.Release(context.Background())
			require.NoError(t, err)
		} else {
			require.NoError(t, s.Unlock(permit.Token()))
		}
	}
	_, err := server.Dial(t).Do("DEL", key(t.Name(), ""), key(t.Name(), ":locked"), key(t.Name(), ":available"))
	require.NoError(t, err)
	permit, err := s.TryAcquire(context.Background())
	require.NoError(t, err)
	require.Greater(t, permit.Fence(), last, "after the data was lost")
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
}

func TestTryAcquireDoesNotOvertake(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	token, err := s.Lock()
	require.NoError(t, err)
	_, err = s.TryAcquire(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	waited := make(chan string, 1)
	go func() {
		token, err := s.Lock()
		if err != nil {
			t.Error(err)
		}
		waited <- token
	}()
	awaitQueue(t, conn, t.Name(), 1)
	require.NoError(t, s.Unlock(token))
	_, err = s.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable, "the permit goes to who waits")
	require.NoError(t, s.Unlock(<-waited))
	requireAllFree(t, s)
}

func TestBoundContextEndsWithEither(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	type named struct{}
	parent := context.WithValue(context.Background(), named{}, "value")
	for name, end := range map[string]func(p *semaphore.Permit, cancel, stop func()){
		"the caller's context": func(_ *semaphore.Permit, cancel, _ func()) { cancel() },
		"released":             func(p *semaphore.Permit, _, _ func()) { p.Release(context.Background()) },
		"lost":                 func(*semaphore.Permit, func(), func()) {},
		"stopped":              func(_ *semaphore.Permit, _, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			permit, err := s.Acquire(context.Background())
			require.NoError(t, err)
			defer permit.Release(context.Background())
			ctx, cancel := context.WithCancel(parent)
			defer cancel()
			bound, stop := permit.Bind(ctx)
			defer stop()
			require.NoError(t, bound.Err())
			require.Equal(t, "value", bound.Value(named{}))
			end(permit, cancel, stop)
			select {
			case <-bound.Done():
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
			require.ErrorIs(t, bound.Err(), context.Canceled)
			require.Equal(t, name == "lost", errors.Is(context.Cause(bound), semaphore.ErrLost))
		})
	}
}

func TestBoundContextHasEndedWhenThePermitHas(t *testing.T) {
	s := newSemaphore(t)
	for range 50 {
		permit, err := s.Acquire(context.Background())
		require.NoError(t, err)
		bound, stop := permit.Bind(context.Background())
		released := make(chan struct{})
		go func() {
			permit.Release(context.Background())
			close(released)
		}()
		<-permit.Done()
		require.Error(t, bound.Err())
		stop()
		<-released
	}
}

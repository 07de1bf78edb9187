package semaphore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestJobThatIsReturnedComesFirstAgain(t *testing.T) {
	q := newQueue(t)
	signal(t, q, "a", "b")
	first := receive(t, q)
	require.NoError(t, first.Return(context.Background()))
	again := receive(t, q)
	require.Equal(t, "a", again.Value)
	require.Equal(t, first.ID(), again.ID())
	require.Equal(t, 2, again.Deliveries())
	require.Greater(t, again.Fence(), first.Fence())
	require.NoError(t, again.Done(context.Background()))
	b := receive(t, q)
	require.Equal(t, "b", b.Value)
	require.Greater(t, b.ID(), again.ID())
	require.NoError(t, b.Done(context.Background()))
	requireNoJobs(t, q)
}

func TestJobThatOverrunsIsDeliveredAgainBeforeNewerOnes(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second})
	signal(t, q, "slow")
	slow := receive(t, q)
	signal(t, q, "new")
	other := newQueue(t)
	new := receive(t, other)
	require.Equal(t, "new", new.Value)
	again := receive(t, other) // waits for the end of the lease
	require.Equal(t, "slow", again.Value)
	require.Equal(t, slow.ID(), again.ID())
	require.Equal(t, 2, again.Deliveries())
	require.Greater(t, again.Fence(), slow.Fence())
	await(t, func() bool { return slow.Context().Err() != nil })
	require.ErrorIs(t, context.Cause(slow.Context()), semaphore.ErrLost)
	for _, late := range []func(context.Context) error{slow.Done, slow.Return, slow.Refresh} {
		err := late(context.Background())
		require.ErrorIs(t, err, semaphore.ErrNotHeld)
		require.ErrorIs(t, err, semaphore.ErrLost)
	}
	require.NoError(t, again.Done(context.Background()))
	require.NoError(t, new.Done(context.Background()))
	requireNoJobs(t, q)
}

func TestReturnedJobsKeepTheOrderOfTheirSignals(t *testing.T) {
	q := newQueue(t)
	signal(t, q, "a", "b", "c")
	a, b := receive(t, q), receive(t, q)
	require.NoError(t, b.Return(context.Background()))
	require.NoError(t, a.Return(context.Background()))
	for _, want := range []string{"a", "b", "c"} {
		require.Equal(t, want, handle(t, q))
	}
}

func TestRefreshGivesAJobMoreTime(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Visibility: 2 * time.Second})
	signal(t, q, "a")
	job := receive(t, q)
	first := job.Deadline()
	for job.Deadline().Before(first.Add(2 * time.Second)) {
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, job.Refresh(context.Background()))
		_, err := q.TryWait(context.Background())
		require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	}
	require.NoError(t, job.Done(context.Background()))
}

func TestAutoRenewKeepsAJobAsLongAsItIsWorkedOn(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second, AutoRenew: true})
	signal(t, q, "long")
	job := receive(t, q)
	other := newQueue(t)
	for start := time.Now(); time.Since(start) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		_, err := other.TryWait(context.Background())
		require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	}
	require.NoError(t, job.Context().Err())
	require.NoError(t, job.Done(context.Background()))
	require.Error(t, job.Context().Err())
	requireNoJobs(t, q)
}

func TestAtMostOnceDeliversNoJobAgain(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second, AtMostOnce: true})
	signal(t, q, "a", "b", "c")
	receive(t, q) // never done
	done := receive(t, q)
	require.NoError(t, done.Done(context.Background()))
	returned := receive(t, q)
	require.NoError(t, returned.Return(context.Background()), "whoever says so has it delivered again")
	again := receive(t, q)
	require.Equal(t, "c", again.Value)
	require.NoError(t, again.Done(context.Background()))
	await(t, func() bool {
		s, err := q.Inspect(context.Background())
		require.NoError(t, err)
		require.Zero(t, s.ReadyCount)
		return s.WorkingCount == 0
	})
	requireNoJobs(t, q)
}

// A job that was granted through the queue and given to nobody is not used up.
func TestAtMostOnceDeliversWhatACanceledConsumerWasGranted(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{AtMostOnce: true})
	for i := range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
			cancel()
		}()
		signal(t, q, fmt.Sprint(i))
		job, err := q.Wait(ctx)
		if err != nil {
			job = receive(t, q)
		}
		require.Equal(t, fmt.Sprint(i), job.Value)
		require.NoError(t, job.Done(context.Background()))
		cancel()
	}
	requireNoJobs(t, q)
}

func TestJobsDoNotExpireUnlessAskedFor(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second})
	conn := server.Dial(t)
	signal(t, q, "a", "b")
	receive(t, q) // and never done
	for _, suffix := range []string{"", ":version", ":available", ":jobs", ":locked", ":leases"} {
		ttl, err := redis.Int(conn.Do("PTTL", key(t.Name(), suffix)))
		require.NoError(t, err)
		require.Equal(t, -1, ttl, suffix)
	}
	require.Equal(t, "b", handle(t, q))
	require.Equal(t, "a", handle(t, q))
	requireNoJobs(t, q)
	keys, err := redis.Strings(conn.Do("KEYS", key(t.Name(), "*")))
	require.NoError(t, err)
	for _, key := range keys {
		ttl, err := redis.Int(conn.Do("PTTL", key))
		require.NoError(t, err)
		require.Positive(t, ttl, "%s: an empty queue expires", key)
	}
}

func TestJobExpirationEndsWhatWasNotDelivered(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second, JobExpiration: 2 * time.Second})
	forEver := newQueue(t)
	signal(t, q, "worked on", "left")
	job := receive(t, q)
	signal(t, forEver, "kept")
	s, err := q.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, s.Ready[0].Expires.Sub(s.Ready[0].Since).Round(100*time.Millisecond))
	require.Zero(t, s.Ready[1].Expires)
	await(t, func() bool {
		if job.Deadline().Before(time.Now().Add(900 * time.Millisecond)) {
			require.NoError(t, job.Refresh(context.Background()))
		}
		n, err := q.Len(context.Background())
		require.NoError(t, err)
		return n == 1
	})
	require.NoError(t, job.Return(context.Background()), "its time is over too")
	require.Equal(t, "kept", handle(t, q))
	requireNoJobs(t, q)
}

func TestQueueOfJobsThatExpireLeavesNothing(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second, JobExpiration: 3 * time.Second})
	signal(t, q, "a", "b")
	receive(t, q)
	conn := server.Dial(t)
	ttl, err := redis.Int(conn.Do("PTTL", key(t.Name(), ":jobs")))
	require.NoError(t, err)
	require.Greater(t, ttl, 2000)
	await(t, func() bool {
		keys, err := redis.Strings(conn.Do("KEYS", key(t.Name(), "*")))
		require.NoError(t, err)
		return len(keys) == 0
	})
}

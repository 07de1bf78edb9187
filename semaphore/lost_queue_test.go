package semaphore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// waitsFor waits for a job and says so when it has it.
func waitsFor(t *testing.T, q *semaphore.Queue) <-chan *semaphore.Job {
	got := make(chan *semaphore.Job, 1)
	go func() {
		job, err := q.Wait(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- job
	}()
	return got
}

// requireJob checks that a job is the one that is expected, delivered so often, and is
// done with it.
func requireJob(t *testing.T, job *semaphore.Job, value string, deliveries int) {
	t.Helper()
	require.NotNil(t, job)
	require.Equal(t, value, job.Value)
	require.Equal(t, deliveries, job.Deliveries())
	require.NoError(t, job.Done(context.Background()))
}

// requireWorking checks how many jobs are ready and how many are worked on.
func requireWorking(t *testing.T, q *semaphore.Queue, ready, working int) {
	t.Helper()
	s, err := q.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{ready, working}, []int{s.ReadyCount, s.WorkingCount})
}

var atMostOnce = semaphore.QueueSettings{AtMostOnce: true}

// lostQueueSteps are the steps of a queue. Each job is there once, in its order, and is
// delivered once.
var lostQueueSteps = []lostStep{
	{"queue: signal", "signal", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		signal(t, direct, "first")
		l.arm()
		ready, err := q.Signal(context.Background(), "a", "b")
		require.NoError(t, err)
		require.Equal(t, 3, ready)
		signal(t, direct, "last")
		for _, value := range []string{"first", "a", "b", "last"} {
			requireJob(t, receive(t, direct), value, 1)
		}
		requireNoJobs(t, direct)
	}},
	{"queue: acquire of a job", "acquire", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		signal(t, direct, "a", "b")
		l.arm()
		job := receive(t, q)
		requireWorking(t, direct, 1, 1)
		requireJob(t, job, "a", 1)
		requireJob(t, receive(t, direct), "b", 1)
		requireNoJobs(t, direct)
	}},
	{"queue: acquire of a job at most once", "acquire", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue(atMostOnce)
		signal(t, direct, "a", "b")
		l.arm()
		requireJob(t, receive(t, q), "a", 1)
		requireJob(t, receive(t, q), "b", 1)
		requireNoJobs(t, direct)
	}},
	{"queue: acquire that is queued", "acquire", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		l.arm()
		requireFollowing(t, l, direct, waitsFor(t, q))
	}},
	{"queue: try that is refused", "acquire", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		l.arm()
		_, err := q.TryWait(context.Background())
		require.ErrorIs(t, err, semaphore.ErrNotAvailable)
		signal(t, direct, "a")
		requireWorking(t, direct, 1, 0)
		requireJob(t, receive(t, direct), "a", 1)
	}},
	{"queue: fetch", "fetch", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		l.arm()
		requireFollowing(t, l, direct, waitsFor(t, q))
	}},
	{"queue: fetch at most once", "fetch", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue(atMostOnce)
		l.arm()
		requireFollowing(t, l, direct, waitsFor(t, q))
	}},
	{"queue: done", "release", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		signal(t, direct, "a", "b")
		job := receive(t, q)
		l.arm()
		require.NoError(t, job.Done(context.Background()))
		require.ErrorIs(t, job.Done(context.Background()), semaphore.ErrNotHeld)
		requireWorking(t, direct, 1, 0)
		requireJob(t, receive(t, direct), "b", 1)
		requireNoJobs(t, direct)
	}},
	{"queue: return", "release", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		signal(t, direct, "a", "b")
		job := receive(t, q)
		l.arm()
		require.NoError(t, job.Return(context.Background()))
		require.ErrorIs(t, job.Done(context.Background()), semaphore.ErrNotHeld)
		requireWorking(t, direct, 2, 0)
		requireJob(t, receive(t, direct), "a", 2)
		requireJob(t, receive(t, direct), "b", 1)
		requireNoJobs(t, direct)
	}},
	{"queue: renew", "renew", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		signal(t, direct, "a")
		job := receive(t, q)
		before := job.Deadline()
		l.arm()
		require.NoError(t, job.Refresh(context.Background()))
		require.True(t, job.Deadline().After(before))
		requireJob(t, job, "a", 1)
		requireNoJobs(t, direct)
	}},
	{"queue: leave", "leave", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := q.Wait(ctx)
			failed <- err
		}()
		awaitQueue(t, l.control, l.name, 1)
		l.arm()
		cancel()
		require.ErrorIs(t, soon(t, failed), semaphore.ErrCanceled)
		awaitQueue(t, l.control, l.name, 0)
		signal(t, direct, "a")
		requireWorking(t, direct, 1, 0)
		requireJob(t, receive(t, direct), "a", 1)
	}},
	{"queue: tend", "tend", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		l.arm()
		first := waitsFor(t, q)
		awaitQueue(t, l.control, l.name, 1)
		l.awaitFault()
		requireFollowing(t, l, direct, first)
	}},
	{"queue: pop of the news", "pop", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		l.arm()
		requireFollowing(t, l, direct, waitsFor(t, q))
	}},
	{"queue: delete", "delete", func(t *testing.T, l *lossyLink) {
		q, direct := l.queue()
		signal(t, direct, "a")
		l.arm()
		deleted := make(chan error, 1)
		go func() { deleted <- q.Delete(context.Background()) }()
		l.awaitFault()
		if l.done { // what comes now stays
			signal(t, direct, "b")
			require.NoError(t, soon(t, deleted))
			requireJob(t, receive(t, direct), "b", 1)
		} else {
			require.NoError(t, soon(t, deleted))
		}
		requireNoJobs(t, direct)
	}},
}

// requireFollowing checks that first, who waits for a job or is about to, gets the first
// and another the second, each delivered once.
func requireFollowing(t *testing.T, l *lossyLink, direct *semaphore.Queue, first <-chan *semaphore.Job) {
	t.Helper()
	awaitQueue(t, l.control, l.name, 1)
	second := waitsFor(t, direct)
	awaitQueue(t, l.control, l.name, 2)
	start := time.Now()
	signal(t, direct, "a", "b")
	requireJob(t, soon(t, first), "a", 1)
	measured(t, time.Since(start), "3s, the claim window, however the link breaks")
	requireJob(t, soon(t, second), "b", 1)
	requireNoJobs(t, direct)
}

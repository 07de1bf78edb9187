package semaphore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// newQueue makes a handle on a queue named after the test, on the shared server.
// Each has a pool of its own, as each process would.
func newQueue(t *testing.T, settings ...semaphore.QueueSettings) *semaphore.Queue {
	t.Helper()
	q, err := semaphore.NewQueue(t.Name(), adapter(t, server.Addr), nil, settings...)
	require.NoError(t, err)
	return q
}

// signal adds jobs.
func signal(t *testing.T, q *semaphore.Queue, jobs ...string) {
	t.Helper()
	_, err := q.Signal(context.Background(), jobs...)
	require.NoError(t, err)
}

// receive waits for a job, that must come.
func receive(t *testing.T, q *semaphore.Queue) *semaphore.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	job, err := q.Wait(ctx)
	require.NoError(t, err)
	return job
}

// handle waits for a job, and is done with it.
func handle(t *testing.T, q *semaphore.Queue) string {
	t.Helper()
	job := receive(t, q)
	require.NoError(t, job.Done(context.Background()))
	return job.Value
}

// consumers has n consumers wait, one after the other; each tells its number and
// the job, when that is done.
func consumers(t *testing.T, q *semaphore.Queue, n int) <-chan string {
	t.Helper()
	conn := server.Dial(t)
	got := make(chan string, n)
	before := len(queued(t, conn, q.Name()))
	for i := range n {
		go func() {
			job, err := q.Wait(context.Background())
			if err != nil {
				got <- err.Error()
				return
			}
			if err := job.Done(context.Background()); err != nil {
				got <- err.Error()
				return
			}
			got <- fmt.Sprint(i, " ", job.Value)
		}()
		awaitQueue(t, conn, q.Name(), before+i+1)
	}
	return got
}

// requireNoJobs checks that nothing is left of any job.
func requireNoJobs(t *testing.T, q *semaphore.Queue) {
	t.Helper()
	conn := server.Dial(t)
	for suffix, command := range map[string]string{":jobs": "HLEN", ":available": "ZCARD", ":locked": "HLEN", ":leases": "ZCARD", ":expiries": "ZCARD"} {
		n, err := redis.Int(conn.Do(command, key(q.Name(), suffix)))
		require.NoError(t, err)
		require.Zero(t, n, suffix)
	}
}

func TestQueueDeliversAnyStringUnmodifiedInOrder(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	binary := make([]byte, 1<<20)
	rand.Read(binary)
	jobs := []string{"", "a", "a", "a", "\x00\xff\n\r\n %s {}", "ünï¢ødé", string(binary), strings.Repeat("x", 1<<20), "1", "-1", ""}
	ready, err := q.Signal(context.Background(), jobs...)
	require.NoError(t, err)
	require.Equal(t, len(jobs), ready)
	consumer := newQueue(t)
	for i, want := range jobs {
		job := receive(t, consumer)
		require.True(t, want == job.Value, "job %d", i)
		require.Equal(t, 1, job.Deliveries())
		require.NoError(t, job.Done(context.Background()))
	}
	requireNoJobs(t, q)
}

func TestQueueHandsWaitingConsumersAnyStringToo(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	for _, want := range []string{"", "\x00\n1 2 3\n", strings.Repeat("y", 1<<20)} {
		got := consumers(t, q, 1)
		signal(t, newQueue(t), want)
		require.True(t, "0 "+want == <-got)
	}
	requireNoJobs(t, q)
}

func TestQueueIsFirstComeFirstServedOnBothSides(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	first := consumers(t, q, 3)
	second := consumers(t, newQueue(t), 3)
	producer := newQueue(t)
	for i := range 6 {
		signal(t, producer, fmt.Sprint("job ", i))
		if i < 3 {
			require.Equal(t, fmt.Sprint(i, " job ", i), <-first)
		} else {
			require.Equal(t, fmt.Sprint(i-3, " job ", i), <-second)
		}
	}
}

func TestQueueBatchIsKeptTogether(t *testing.T) {
	q := newQueue(t)
	batch := make([]string, 10_000)
	for i := range batch {
		batch[i] = fmt.Sprint(i)
	}
	ready, err := q.Signal(context.Background(), batch...)
	require.NoError(t, err)
	require.Equal(t, 10_000, ready)
	signal(t, q, "after")
	for _, want := range batch[:500] {
		require.Equal(t, want, handle(t, q))
	}
	n, err := q.Len(context.Background())
	require.NoError(t, err)
	require.Equal(t, 9_501, n)
}

func TestQueueBatchGoesToAllWhoWait(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	got := consumers(t, q, 3)
	ready, err := newQueue(t).Signal(context.Background(), "a", "b", "c", "d")
	require.NoError(t, err)
	require.Equal(t, 1, ready)
	require.ElementsMatch(t, []string{"0 a", "1 b", "2 c"}, []string{<-got, <-got, <-got})
	require.Equal(t, "d", handle(t, q))
}

func TestTryWaitDoesNotWait(t *testing.T) {
	q := newQueue(t)
	_, err := q.TryWait(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	signal(t, q, "a")
	job, err := q.TryWait(context.Background())
	require.NoError(t, err)
	require.Equal(t, "a", job.Value)
	require.NoError(t, job.Done(context.Background()))
}

func TestCanceledConsumersLoseNoJob(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	producer := newQueue(t)
	const jobs = 200
	seen := make(chan string, jobs)
	ctx, stop := context.WithCancel(context.Background())
	for worker := range 8 {
		go func() {
			for i := 0; ctx.Err() == nil; i++ {
				wait, cancel := context.WithTimeout(ctx, time.Duration((worker*7+i*13)%40)*time.Millisecond/10)
				if job, err := q.Wait(wait); err == nil {
					seen <- job.Value
					if err := job.Done(context.Background()); err != nil {
						t.Error(err)
					}
				}
				cancel()
			}
		}()
	}
	for i := range jobs {
		signal(t, producer, fmt.Sprint(i))
	}
	got := make(map[string]bool)
	for range jobs {
		select {
		case job := <-seen:
			require.False(t, got[job], "%s was delivered twice", job)
			got[job] = true
		case <-time.After(patience):
			t.Fatalf("only %d of %d", len(got), jobs)
		}
	}
	stop()
	await(t, func() bool { return len(queued(t, server.Dial(t), t.Name())) == 0 })
	requireNoJobs(t, q)
}

func TestQueueInspectShowsJobsAndConsumers(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Owner: "me"})
	empty, err := q.Inspect(context.Background())
	require.NoError(t, err)
	require.False(t, empty.Exists)
	require.Contains(t, empty.String(), "not in use")
	signal(t, q, "a", "bb", "ccc")
	first := receive(t, q)
	second := receive(t, q)
	require.NoError(t, second.Return(context.Background()))
	s, err := q.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 0}, []int{s.ReadyCount, s.WorkingCount, s.ConsumerCount})
	require.Equal(t, []int{2, 1, 3, 0}, []int{s.Ready[0].Bytes, s.Ready[0].Deliveries, s.Ready[1].Bytes, s.Ready[1].Deliveries})
	w := s.Working[0]
	require.Equal(t, []any{first.ID(), "me", 1, first.Fence()}, []any{w.ID, w.Owner, w.Deliveries, w.Fence})
	require.Equal(t, time.Minute, w.Expires.Sub(w.Since).Round(time.Second))
	require.WithinDuration(t, s.Time, s.Ready[0].Since, patience)
	require.Contains(t, s.String(), "2 jobs ready, 1 worked on, 0 consumers waiting")
	require.NoError(t, first.Done(context.Background()))
	handle(t, q)
	handle(t, q)

	got := consumers(t, q, 2)
	s, err = q.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 2}, []int{s.ReadyCount, s.WorkingCount, s.ConsumerCount})
	require.Equal(t, "me", s.Consumers[0].Owner)
	require.True(t, s.Consumers[1].Alive)
	require.Len(t, strings.Split(strings.TrimSpace(s.String()), "\n"), 3, s.String())
	signal(t, q, "x", "y")
	require.ElementsMatch(t, []string{"0 x", "1 y"}, []string{<-got, <-got})
}

func TestQueueDeleteStrandsNoConsumer(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	signal(t, q, "worked on")
	job := receive(t, q)
	got := consumers(t, newQueue(t), 3)
	require.NoError(t, q.Delete(context.Background()))
	err := job.Done(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotHeld)
	for i := range 3 {
		signal(t, q, fmt.Sprint("job ", i))
		require.Equal(t, fmt.Sprint(i, " job ", i), <-got)
	}
	signal(t, q, "a", "b")
	require.NoError(t, q.Delete(context.Background()))
	n, err := q.Len(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
	requireNoJobs(t, q)
}

func TestQueueHandlesOfOneNameShareItsConnection(t *testing.T) {
	client := adapter(t, server.Addr)
	var all []<-chan string
	for range 3 {
		q, err := semaphore.NewQueue(t.Name(), client, nil)
		require.NoError(t, err)
		all = append(all, consumers(t, q, 5))
	}
	require.Equal(t, 1, semaphore.LiveHubs())
	q := newQueue(t)
	for range 15 {
		signal(t, q, "x")
	}
	for _, got := range all {
		for range 5 {
			require.Contains(t, <-got, " x")
		}
	}
}

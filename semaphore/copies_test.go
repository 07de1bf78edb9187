package semaphore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// overtaken is a client of which the first copy of a step gets stuck, so that the second
// overtakes it.
type overtaken struct {
	*hooked
	stuck func() (any, error)
}

func newOvertaken(t *testing.T, step string) *overtaken {
	o := &overtaken{}
	o.hooked = &hooked{adapter(t, server.Addr), func(_ context.Context, s string, _ []string, run func() (any, error)) (any, error) {
		if s == step && o.stuck == nil {
			o.stuck = run
			return nil, errReset
		}
		return run()
	}}
	return o
}

// arrive lets the first copy come to Redis at last.
func (o *overtaken) arrive(t *testing.T) {
	t.Helper()
	_, err := o.stuck()
	require.NoError(t, err)
}

func queueOf(t *testing.T, client redisadapter.Redis, settings ...semaphore.QueueSettings) *semaphore.Queue {
	t.Helper()
	q, err := semaphore.NewQueue(t.Name(), client, nil, settings...)
	require.NoError(t, err)
	return q
}

func ready(t *testing.T, q *semaphore.Queue) int {
	t.Helper()
	n, err := q.Len(context.Background())
	require.NoError(t, err)
	return n
}

// signalAndFinish leaves nothing of a job but the name of its signal.
func (o *overtaken) signalAndFinish(t *testing.T, q *semaphore.Queue) {
	t.Helper()
	signal(t, q, "a")
	require.Equal(t, "a", handle(t, q))
}

func TestCopyOfASignalAddsNothing(t *testing.T) {
	for name, between := range map[string]func(*semaphore.Queue) error{
		"when the job is done":       func(*semaphore.Queue) error { return nil },
		"when the queue was deleted": func(q *semaphore.Queue) error { return q.Delete(context.Background()) },
		"when the keys have expired": func(*semaphore.Queue) error { time.Sleep(2500 * time.Millisecond); return nil },
		"when it is too late":        func(*semaphore.Queue) error { time.Sleep(4200 * time.Millisecond); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOvertaken(t, "signal")
			q := queueOf(t, o, semaphore.QueueSettings{Visibility: time.Second})
			o.signalAndFinish(t, q)
			require.NoError(t, between(q))
			o.arrive(t)
			require.Zero(t, ready(t, q))
		})
	}
}

// The names of calls are kept by their age: however many others there are meanwhile, a
// repeated one is taken once.
func TestRepeatedCallsAreTakenOnceHoweverBusyTheKeyIs(t *testing.T) {
	const others = 2100 // more than a list of the last ones would have
	ctx := context.Background()
	// busy loses the first answer of a step, when the others have come.
	busy := func(t *testing.T, step string, other func()) redisadapter.Redis {
		lost := false
		return &hooked{adapter(t, server.Addr), func(_ context.Context, s string, _ []string, run func() (any, error)) (any, error) {
			reply, err := run()
			if s != step || lost {
				return reply, err
			}
			lost = true
			for range others {
				other()
			}
			return nil, errReset
		}}
	}
	lockAndUnlock := func(t *testing.T, s *semaphore.Semaphore) func() {
		return func() {
			token, err := s.Lock()
			require.NoError(t, err)
			require.NoError(t, s.Unlock(token))
		}
	}
	t.Run("Signal", func(t *testing.T) {
		other := newQueue(t)
		q := queueOf(t, busy(t, "signal", func() { signal(t, other, "other") }))
		signal(t, q, "a")
		require.Equal(t, others+1, ready(t, q))
	})
	t.Run("Signal of a permit", func(t *testing.T) {
		other := newSemaphore(t)
		s, err := semaphore.New(t.Name(), busy(t, "resize", lockAndUnlock(t, other)), nil)
		require.NoError(t, err)
		require.NoError(t, s.Signal(""))
		free, err := s.GetNumAvailableResources()
		require.NoError(t, err)
		require.Equal(t, 2, free)
	})
	t.Run("Delete", func(t *testing.T) {
		other := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
		var held string
		again := lockAndUnlock(t, other)
		s, err := semaphore.New(t.Name(), busy(t, "delete", func() {
			if held == "" {
				var err error
				held, err = other.Lock()
				require.NoError(t, err)
			}
			again()
		}), nil, semaphore.Settings{MaxParallelResources: 2})
		require.NoError(t, err)
		require.NoError(t, s.Delete(ctx))
		locked, err := s.IsResourceLocked(held)
		require.NoError(t, err)
		require.True(t, locked)
	})
}

func TestRefusalThatIsRepeatedStaysOne(t *testing.T) {
	lost := false
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		reply, err := run()
		if step == "resize" && !lost {
			lost = true
			return nil, errReset
		}
		return reply, err
	}, semaphore.Settings{MaxParallelResources: 1_000_000})
	require.ErrorIs(t, s.Signal(""), semaphore.ErrInvalidArgument)
	require.True(t, lost)
}

func TestCopyOfATryThatWasRefusedTakesNothing(t *testing.T) {
	o := newOvertaken(t, "acquire")
	s, err := semaphore.New(t.Name(), o, nil)
	require.NoError(t, err)
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	_, err = s.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	require.NoError(t, holder.Unlock(token))
	o.arrive(t)
	requireAllFree(t, holder)
}

func TestCopyOfATryThatWasRefusedTakesNoJob(t *testing.T) {
	o := newOvertaken(t, "acquire")
	q := queueOf(t, o, semaphore.QueueSettings{AtMostOnce: true, Visibility: time.Second})
	_, err := q.TryWait(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	signal(t, q, "a")
	o.arrive(t)
	require.Equal(t, 1, ready(t, q))
	require.Equal(t, "a", handle(t, q))
}

// The lease of its token has ended, and the copy that comes then does not take another
// job for it, which its Done would end.
func TestCopyOfAWaitWhoseLeaseHasEndedTakesNoJob(t *testing.T) {
	o := newOvertaken(t, "acquire")
	q := queueOf(t, o, semaphore.QueueSettings{AtMostOnce: true, Visibility: time.Second})
	signal(t, q, "a", "b")
	job := receive(t, q)
	<-job.Context().Done()
	time.Sleep(10 * time.Millisecond) // it has ended in Redis too
	o.arrive(t)
	require.ErrorIs(t, job.Done(context.Background()), semaphore.ErrNotHeld)
	require.Equal(t, 1, ready(t, q))
	require.Equal(t, "b", handle(t, q))
}

// The news of the grant comes before the answer of the acquire that was repeated.
func TestLockReturnsThoughItWasGrantedBeforeItsAnswerCame(t *testing.T) {
	verifyNoLeak(t)
	holder := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	a, err := holder.Lock()
	require.NoError(t, err)
	b, err := holder.Lock()
	require.NoError(t, err)
	var s *semaphore.Semaphore
	armed := make(chan bool, 1)
	s = hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		reply, err := run()
		if step != "acquire" || err != nil {
			return reply, err
		}
		select {
		case <-armed: // queued: both waiters are granted
			if err := holder.Unlock(a); err != nil {
				t.Error(err)
			}
			if err := holder.Unlock(b); err != nil {
				t.Error(err)
			}
			time.Sleep(200 * time.Millisecond) // the news comes
			return nil, errReset
		default:
			return reply, err
		}
	}, semaphore.Settings{MaxParallelResources: 2})
	tokens := make(chan string, 2)
	lock := func() {
		token, err := s.LockContext(context.Background())
		if err != nil {
			t.Error(err)
		}
		tokens <- token
	}
	go lock()
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	armed <- true
	go lock()
	for range 2 {
		select {
		case token := <-tokens:
			require.NoError(t, s.Unlock(token))
		case <-time.After(patience):
			t.Fatal("it does not return")
		}
	}
	requireAllFree(t, holder)
	await(t, func() bool { return semaphore.LiveHubs() == 0 })
}

// The acquire that is repeated reclaims and serves: its own answer brings the news.
func TestLockReturnsThoughItsAnswerBringsTheNewsToo(t *testing.T) {
	holder := newSemaphore(t, semaphore.Settings{Expiration: time.Second})
	_, err := holder.Lock() // and dies
	require.NoError(t, err)
	lost := false
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		reply, err := run()
		if step == "acquire" && !lost {
			lost = true
			time.Sleep(1200 * time.Millisecond)
			return nil, errReset
		}
		return reply, err
	})
	done := make(chan error, 1)
	go func() {
		token, err := s.Lock()
		if err == nil {
			err = s.Unlock(token)
		}
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("it does not return")
	}
}

// What has ended counts as free, however much of it there is.
func TestTryFindsAllThatHasEnded(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 1100, Expiration: time.Second})
	for range 1100 {
		_, err := s.Lock()
		require.NoError(t, err)
	}
	time.Sleep(1100 * time.Millisecond)
	permit, err := s.TryAcquireN(context.Background(), 1100)
	require.NoError(t, err)
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
}

func TestJobsThatHaveEndedAreNotDelivered(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{JobExpiration: time.Second})
	jobs := make([]string, 1200)
	for i := range jobs {
		jobs[i] = fmt.Sprint(i)
	}
	signal(t, q, jobs...)
	_, err := server.Dial(t).Do("DEL", key(t.Name(), ":expiries")) // lost, besides
	require.NoError(t, err)
	time.Sleep(1100 * time.Millisecond)
	_, err = q.TryWait(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	require.Zero(t, ready(t, q))
}

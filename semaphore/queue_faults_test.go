package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// lossy is a client that loses one in so many replies of steps and, as often, does
// not get a step to the server, without being able to tell the two.
func lossy(t *testing.T, one int) redisadapter.Redis {
	return &hooked{adapter(t, server.Addr), func(_ context.Context, _ string, _ []string, run func() (any, error)) (any, error) {
		switch rand.IntN(one) {
		case 0:
			return nil, errReset
		case 1:
			if _, err := run(); err != nil {
				return nil, err
			}
			return nil, errReset
		}
		return run()
	}}
}

// Nobody dies, so each job must be delivered exactly once, whatever replies are lost:
// those of signals, of waits that are answered at once, of the news for those who
// wait, and of Done.
func TestQueueLosesAndDoublesNothingWhenRepliesAreLost(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprint("at most once ", once), func(t *testing.T) {
			verifyNoLeak(t)
			const producers, each, workers = 4, 60, 6
			got := make(chan *semaphore.Job, producers*each)
			ctx, stop := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for range workers {
				q, err := semaphore.NewQueue(t.Name(), lossy(t, 10), nil, semaphore.QueueSettings{AtMostOnce: once})
				require.NoError(t, err)
				wg.Go(func() {
					for {
						job, err := q.Wait(ctx)
						if err != nil {
							return
						}
						got <- job
						if err := job.Done(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for p := range producers {
				q, err := semaphore.NewQueue(t.Name(), lossy(t, 10), nil)
				require.NoError(t, err)
				wg.Go(func() {
					for i := range each {
						if _, err := q.Signal(context.Background(), fmt.Sprint(p, " ", i)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			seen := make(map[string]bool)
			for range producers * each {
				select {
				case job := <-got:
					require.False(t, seen[job.Value], "%s came twice", job.Value)
					require.Equal(t, 1, job.Deliveries(), job.Value)
					seen[job.Value] = true
				case <-time.After(2 * patience):
					t.Fatalf("only %d of %d", len(seen), producers*each)
				}
			}
			stop()
			wg.Wait()
			require.Empty(t, got)
			q := newQueue(t)
			await(t, func() bool {
				s, err := q.Inspect(context.Background())
				require.NoError(t, err)
				return s.ReadyCount+s.WorkingCount+s.ConsumerCount == 0
			})
			requireNoJobs(t, q)
			await(t, func() bool { return semaphore.LiveHubs() == 0 }) // leaves are sent once more
		})
	}
}

// A signal that comes late, when its sender has given up, adds nothing.
func TestSignalThatComesLateAddsNothing(t *testing.T) {
	late := make(chan func() (any, error), 1000)
	client := &hooked{adapter(t, server.Addr), func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "signal" {
			late <- run
			return nil, errReset
		}
		return run()
	}}
	q, err := semaphore.NewQueue(t.Name(), client, nil)
	require.NoError(t, err)
	_, err = q.Len(context.Background()) // it knows the time of the server
	require.NoError(t, err)
	_, err = q.Signal(context.Background(), "a")
	require.ErrorIs(t, err, semaphore.ErrRedis)
	time.Sleep(3500 * time.Millisecond) // longer than a step may be under way
	for len(late) > 0 {
		_, err := (<-late)()
		require.NoError(t, err)
	}
	n, err := q.Len(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
}

// The first of two copies of a signal comes after the second.
func TestSignalThatOvertakesItselfAddsOnce(t *testing.T) {
	var first func() (any, error)
	client := &hooked{adapter(t, server.Addr), func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "signal" && first == nil {
			first = run
			return nil, errReset
		}
		return run()
	}}
	q, err := semaphore.NewQueue(t.Name(), client, nil)
	require.NoError(t, err)
	ready, err := q.Signal(context.Background(), "a")
	require.NoError(t, err)
	require.Equal(t, 1, ready)
	_, err = first()
	require.NoError(t, err)
	n, err := q.Len(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// A delete is not taken again when its answer is lost: who came meanwhile stays.
func TestDeleteThatIsRepeatedDeletesOnce(t *testing.T) {
	var again func() (any, error)
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "delete" {
			again = run
		}
		return run()
	})
	require.NoError(t, s.Delete(context.Background()))
	token, err := s.Lock()
	require.NoError(t, err)
	_, err = again()
	require.NoError(t, err)
	held, err := s.IsResourceLocked(token)
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, s.Unlock(token))
}

func TestSignalOfOnePermitMoreThatIsRepeatedAddsOne(t *testing.T) {
	lost := 0
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		reply, err := run()
		if step == "resize" && lost < 3 {
			lost++
			return nil, errReset
		}
		return reply, err
	})
	require.NoError(t, s.Signal(""))
	require.Equal(t, 3, lost)
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 2, free)
}

// A consumer that believes its job lost, though Redis still has it as held: its Done
// fails, and so, whoever would undo the work counts on another delivery; but not one who
// asked for none.
func TestDoneOfAJobThatIsBelievedLost(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprint("at most once ", once), func(t *testing.T) {
			client := &hooked{adapter(t, server.Addr), func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
				reply, err := run()
				if step == "renew" {
					return nil, errReset
				}
				return reply, err
			}}
			q, err := semaphore.NewQueue(t.Name(), client, nil, semaphore.QueueSettings{Visibility: 2 * time.Second, AtMostOnce: once})
			require.NoError(t, err)
			signal(t, q, "a")
			job := receive(t, q)
			for job.Context().Err() == nil { // each extends the lease, and none is heard of
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				require.Error(t, job.Refresh(ctx))
				cancel()
			}
			err = job.Done(context.Background())
			require.ErrorIs(t, err, semaphore.ErrNotHeld)
			require.ErrorIs(t, err, semaphore.ErrLost)
			s, err := q.Inspect(context.Background())
			require.NoError(t, err)
			require.Zero(t, s.WorkingCount)
			if once {
				require.Zero(t, s.ReadyCount)
			} else {
				require.Equal(t, 1, s.ReadyCount)
			}
		})
	}
}

// A permit that is known to be lost is released without delay, though Redis is away.
func TestReleaseOfALostPermitDoesNotWaitForRedis(t *testing.T) {
	var away atomic.Bool
	var sent atomic.Int64
	s := hookedSemaphore(t, func(_ context.Context, step string, _ []string, run func() (any, error)) (any, error) {
		if step == "release" {
			sent.Add(1)
		}
		if away.Load() {
			return nil, errReset
		}
		return run()
	}, semaphore.Settings{Expiration: time.Second})
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	away.Store(true)
	<-permit.Done()
	_, err = permit.Release(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotHeld)
	require.ErrorIs(t, err, semaphore.ErrLost)
	require.EqualValues(t, 1, sent.Load())
}

package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// playConsume handles jobs in many goroutines until its input ends: it notes each in
// Redis, and is done with it.
func playConsume(p part, a *actor) error {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range p.Goroutines {
		wg.Go(func() {
			conn := a.redis.Get()
			defer conn.Close()
			for {
				job, err := a.queue.Wait(ctx)
				if errors.Is(err, semaphore.ErrCanceled) {
					return
				}
				if err == nil {
					_, err = conn.Do("RPUSH", "handled:"+p.Key, job.Value)
				}
				if err == nil {
					err = job.Done(context.Background())
				}
				if errors.Is(err, semaphore.ErrNotHeld) { // the machine was too slow
					a.say("overran")
				} else if err != nil {
					a.say("failed %v", err)
					return
				}
			}
		})
	}
	a.say("ready")
	for a.orders.Scan() {
	}
	stop()
	wg.Wait()
	a.say("done")
	return nil
}

func TestParityB_ConsumersThatAreKilledLoseNoJob(t *testing.T) {
	handled, atRisk := handleManyJobs(t, semaphore.QueueSettings{Visibility: 2 * time.Second})
	require.Len(t, handled, manyJobs, "jobs were lost")
	doubled := 0
	for _, times := range handled {
		doubled += times - 1
	}
	t.Logf("%d jobs were handled twice", doubled)
	require.LessOrEqual(t, doubled, atRisk, "only those of the killed are delivered again")
}

func TestParityB_AtMostOnceHandlesNoJobTwice(t *testing.T) {
	handled, atRisk := handleManyJobs(t, semaphore.QueueSettings{Visibility: 2 * time.Second, AtMostOnce: true})
	for job, times := range handled {
		require.Equal(t, 1, times, "job %s", job)
	}
	lost := manyJobs - len(handled)
	t.Logf("%d jobs were lost", lost)
	require.LessOrEqual(t, lost, atRisk, "only those of the killed are lost")
}

const manyJobs = 10_000

// handleManyJobs has 12 processes handle the jobs, of which a third are killed at
// random moments. It answers how often each job was handled, and how many jobs
// were at risk: those that the killed may have had in their hands, or that somebody
// was too slow for.
func handleManyJobs(t *testing.T, settings semaphore.QueueSettings) (handled map[string]int, atRisk int) {
	const processes, goroutines, victims = 12, 4, 4
	conn := server.Dial(t)
	q := newQueue(t, settings)
	var children []*child
	for range processes {
		children = append(children, spawn(t, "consume", part{Addr: server.Addr, Key: t.Name(), Goroutines: goroutines, Queue: settings}))
	}
	for _, c := range children {
		require.Equal(t, "ready", c.hear())
	}
	var moments []int // when so many are handled the next is killed
	for range victims {
		moments = append(moments, rand.IntN(manyJobs*3/4))
	}
	slices.Sort(moments)
	t.Log("killed when so many were handled:", moments)

	var producer sync.WaitGroup
	producer.Go(func() {
		for i := 0; i < manyJobs; i += 10 {
			var batch []string
			for j := range 10 {
				batch = append(batch, fmt.Sprint(i+j))
			}
			if _, err := q.Signal(context.Background(), batch...); err != nil {
				t.Error(err)
			}
		}
	})
	for i, moment := range moments {
		await(t, func() bool {
			n, err := redis.Int(conn.Do("LLEN", "handled:"+t.Name()))
			require.NoError(t, err)
			return n >= moment
		})
		children[i].kill()
	}
	producer.Wait()
	require.Eventually(t, func() bool {
		s, err := q.Inspect(context.Background())
		require.NoError(t, err)
		return s.ReadyCount+s.WorkingCount == 0
	}, 10*patience, 10*time.Millisecond, "jobs are left")
	atRisk = victims * goroutines
	for _, c := range children[victims:] {
		c.stdin.Close()
		for line := c.hear(); line != "done"; line = c.hear() {
			require.Equal(t, "overran", line)
			atRisk++
		}
		c.finish()
	}
	log, err := redis.Strings(conn.Do("LRANGE", "handled:"+t.Name(), 0, -1))
	require.NoError(t, err)
	handled = make(map[string]int)
	for _, job := range log {
		handled[job]++
	}
	requireNoJobs(t, q)
	return handled, atRisk
}

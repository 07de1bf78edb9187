package semaphore_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// slow is a connection that carries a megabyte a second.
type slow struct{ net.Conn }

const perByte = time.Microsecond

func (c slow) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 10_000)])
	time.Sleep(time.Duration(n) * perByte)
	return n, err
}

func (c slow) Write(b []byte) (sum int, err error) {
	for len(b) > 0 && err == nil {
		var n int
		n, err = c.Conn.Write(b[:min(len(b), 10_000)])
		time.Sleep(time.Duration(n) * perByte)
		b, sum = b[n:], sum+n
	}
	return sum, err
}

// A job that takes longer to be carried than a step usually may take.
func TestLargeJobsPassASlowLink(t *testing.T) {
	pool := &redis.Pool{MaxIdle: 4, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", server.Addr, redis.DialNetDial(func(network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			return slow{conn}, err
		}))
	}}
	t.Cleanup(func() { pool.Close() })
	q := queueOf(t, redigoadapter.New(pool), semaphore.QueueSettings{Visibility: 30 * time.Second})
	large := strings.Repeat("x", 3_000_000)
	ready, err := q.Signal(context.Background(), large)
	require.NoError(t, err)
	require.Equal(t, 1, ready)
	require.True(t, large == handle(t, newQueue(t)))

	got := consumers(t, q, 1)
	signal(t, newQueue(t), large)
	select {
	case job := <-got:
		require.True(t, "0 "+large == job)
	case <-time.After(2 * patience):
		t.Fatal("it does not arrive")
	}
}

// skewed is a client of a cluster, of which the node of another key has a clock that
// is 10 s behind.
type skewed struct {
	redisadapter.Redis
	other string
}

func (s *skewed) Identity() any { return s }

func (s *skewed) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	reply, err := s.Redis.Eval(ctx, script, keys, args)
	if list, ok := reply.([]any); ok && keys[0] == key(s.other, "") {
		list[0] = list[0].(int64) - 10_000
	}
	return reply, err
}

func TestClocksOfOtherNodesDoNotCount(t *testing.T) {
	settings := semaphore.Settings{Expiration: 2 * time.Second}
	client := &skewed{adapter(t, server.Addr), "other " + t.Name()}
	other, err := semaphore.New(client.other, client, nil, settings)
	require.NoError(t, err)
	s, err := semaphore.New(t.Name(), client, nil, settings)
	require.NoError(t, err)
	holder := newSemaphore(t, settings)
	token, err := holder.Lock()
	require.NoError(t, err)
	got := wants(t, s, 1)
	awaitQueue(t, server.Dial(t), t.Name(), 1)
	var stop atomic.Bool
	var asking sync.WaitGroup
	asking.Go(func() {
		for !stop.Load() {
			if _, err := other.GetNumAvailableResources(); err != nil {
				t.Error(err)
			}
		}
	})
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, holder.Unlock(token))
	permit := <-got
	stop.Store(true)
	asking.Wait()
	require.Less(t, time.Until(permit.Deadline()), 2*time.Second)
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
}

// One never-ending job does not keep those for ever that came with it.
func TestQueueExpiresWhenOnlyJobsAreLeftThatEnd(t *testing.T) {
	q := newQueue(t, semaphore.QueueSettings{Visibility: time.Second, JobExpiration: time.Second})
	signal(t, newQueue(t, semaphore.QueueSettings{Visibility: time.Second}), "for ever")
	signal(t, q, "ends")
	require.Equal(t, "for ever", handle(t, q))
	conn := server.Dial(t)
	await(t, func() bool {
		keys, err := redis.Strings(conn.Do("KEYS", key(t.Name(), "*")))
		require.NoError(t, err)
		return len(keys) == 0
	})
}

func TestJobWhoseRecordIsLost(t *testing.T) {
	lose := func(t *testing.T) {
		_, err := server.Dial(t).Do("DEL", key(t.Name(), ":locked"))
		require.NoError(t, err)
	}
	t.Run("is delivered again", func(t *testing.T) {
		q := newQueue(t)
		signal(t, q, "a")
		job := receive(t, q)
		lose(t)
		require.ErrorIs(t, job.Done(context.Background()), semaphore.ErrNotHeld)
		require.Equal(t, "a", handle(t, q))
		requireNoJobs(t, q)
	})
	t.Run("but not to who wants it once", func(t *testing.T) {
		q := newQueue(t, semaphore.QueueSettings{AtMostOnce: true})
		signal(t, q, "a")
		job := receive(t, q)
		lose(t)
		_, err := q.TryWait(context.Background())
		require.ErrorIs(t, err, semaphore.ErrNotAvailable)
		require.ErrorIs(t, job.Done(context.Background()), semaphore.ErrNotHeld)
		requireNoJobs(t, q)
	})
}

// Many attempts that end at one stall count as one: a consumer is not kept for minutes by
// the next connection that is dead.
func TestAStallOfTheLinkSlowsNothingDown(t *testing.T) {
	var stalled atomic.Bool
	client := &hooked{adapter(t, server.Addr), nil}
	client.hook = func(ctx context.Context, _ string, _ []string, run func() (any, error)) (any, error) {
		if stalled.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return run()
	}
	q := queueOf(t, client)
	stalled.Store(true)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 6 {
		waiting.Go(func() {
			if _, err := q.TryWait(ctx); err == nil {
				t.Error("there is no job")
			}
		})
	}
	time.Sleep(2100 * time.Millisecond) // longer than an attempt
	stalled.Store(false)
	waiting.Wait()
	require.NoError(t, ctx.Err())
	stalled.Store(true)
	start := time.Now()
	_, err := q.Len(context.Background())
	require.ErrorIs(t, err, semaphore.ErrRedis)
	require.Less(t, time.Since(start), patience)
	stalled.Store(false)
	await(t, func() bool { return semaphore.LiveHubs() == 0 }) // leaves are sent once more
}

package semaphore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

func TestNewQueueRefusesWrongInputAndSaysWhat(t *testing.T) {
	client := adapter(t, server.Addr)
	type s = semaphore.QueueSettings
	for _, c := range []struct {
		name     string
		key      string
		client   redisadapter.Redis
		settings []s
		sentinel error
		says     []string
	}{
		{"no name", "", client, nil, semaphore.ErrInvalidArgument, []string{"key", "empty"}},
		{"no client", "q", nil, nil, semaphore.ErrInvalidArgument, []string{"client", "nil"}},
		{"two settings", "q", client, []s{{}, {}}, semaphore.ErrInvalidSettings, []string{"2 settings", "one"}},
		{"Visibility too short", "q", client, []s{{Visibility: time.Second - 1}}, semaphore.ErrInvalidSettings, []string{"Visibility", "999.999999ms", "1s"}},
		{"Visibility negative", "q", client, []s{{Visibility: -1}}, semaphore.ErrInvalidSettings, []string{"Visibility", "-1ns", "1s"}},
		{"Visibility too long", "q", client, []s{{Visibility: 9000 * time.Hour}}, semaphore.ErrInvalidSettings, []string{"Visibility", "9000h", "8760h"}},
		{"JobExpiration too short", "q", client, []s{{JobExpiration: time.Millisecond}}, semaphore.ErrInvalidSettings, []string{"JobExpiration", "1ms", "1s"}},
		{"JobExpiration too long", "q", client, []s{{JobExpiration: 9000 * time.Hour}}, semaphore.ErrInvalidSettings, []string{"JobExpiration", "9000h", "8760h"}},
		{"owner too long", "q", client, []s{{Owner: strings.Repeat("o", 257)}}, semaphore.ErrInvalidSettings, []string{"Owner", "257", "256"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := semaphore.NewQueue(c.key, c.client, nil, c.settings...)
			require.ErrorIs(t, err, c.sentinel)
			require.Nil(t, q)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
	q, err := semaphore.NewQueue("q", client, nil)
	require.NoError(t, err)
	require.Equal(t, time.Minute, q.Settings().Visibility)
	require.NotEmpty(t, q.Settings().Owner)
	require.Equal(t, "q", q.Name())
}

func TestSignalRefusesWhatIsNoBatch(t *testing.T) {
	q := newQueue(t)
	for _, c := range []struct {
		name string
		jobs []string
		says []string
	}{
		{"none", nil, []string{"number of jobs is 0", "from 1 to 10000"}},
		{"too many", make([]string, 10_001), []string{"number of jobs is 10001", "from 1 to 10000"}},
		{"too large", []string{strings.Repeat("x", 64<<20), "y"}, []string{"67108865 bytes", "67108864"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := q.Signal(context.Background(), c.jobs...)
			require.ErrorIs(t, err, semaphore.ErrInvalidArgument)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
	requireNoJobs(t, q)
}

func TestJobEndsOnce(t *testing.T) {
	q := newQueue(t)
	ctx := context.Background()
	for _, c := range []struct {
		name          string
		first, second func(*semaphore.Job) error
		says          string
	}{
		{"done twice", func(j *semaphore.Job) error { return j.Done(ctx) }, func(j *semaphore.Job) error { return j.Done(ctx) }, "done"},
		{"returned when done", func(j *semaphore.Job) error { return j.Done(ctx) }, func(j *semaphore.Job) error { return j.Return(ctx) }, "job done"},
		{"done when returned", func(j *semaphore.Job) error { return j.Return(ctx) }, func(j *semaphore.Job) error { return j.Done(ctx) }, "job returned"},
		{"refreshed when done", func(j *semaphore.Job) error { return j.Done(ctx) }, func(j *semaphore.Job) error { return j.Refresh(ctx) }, "job done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			signal(t, q, "a")
			job := receive(t, q)
			require.NoError(t, c.first(job))
			err := c.second(job)
			require.ErrorIs(t, err, semaphore.ErrNotHeld)
			require.NotErrorIs(t, err, semaphore.ErrLost)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, `"`+q.Name()+`"`)
			require.NoError(t, q.Delete(ctx))
		})
	}
}

// queueOperations are all calls that ask Redis.
func queueOperations(q *semaphore.Queue) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Signal":  func(ctx context.Context) error { _, err := q.Signal(ctx, "x"); return err },
		"Wait":    func(ctx context.Context) error { _, err := q.Wait(ctx); return err },
		"TryWait": func(ctx context.Context) error { _, err := q.TryWait(ctx); return err },
		"Len":     func(ctx context.Context) error { _, err := q.Len(ctx); return err },
		"Inspect": func(ctx context.Context) error { _, err := q.Inspect(ctx); return err },
		"Delete":  q.Delete,
	}
}

func TestJobsToASemaphoreAreErrWrongKind(t *testing.T) {
	s := newSemaphore(t)
	q := newQueue(t)
	token, err := s.Lock()
	require.NoError(t, err)
	for name, call := range queueOperations(q) {
		err := call(context.Background())
		require.ErrorIs(t, err, semaphore.ErrWrongKind, name)
		require.ErrorContains(t, err, "it is a semaphore", name)
	}
	_, err = server.Dial(t).Do("DEL", key(t.Name(), ":version"))
	require.NoError(t, err)
	for name, call := range queueOperations(q) {
		require.ErrorIs(t, call(context.Background()), semaphore.ErrWrongKind, name)
	}
	require.NoError(t, s.Unlock(token))
	requireAllFree(t, s)
}

func TestLockOfAQueueIsErrWrongKind(t *testing.T) {
	s := newSemaphore(t)
	q := newQueue(t)
	signal(t, q, "a")
	for name, call := range operations(s) {
		err := call()
		require.ErrorIs(t, err, semaphore.ErrWrongKind, name)
		require.ErrorContains(t, err, "it is a queue", name)
	}
	require.Equal(t, "a", handle(t, q))
}

func TestWaitOnWhatBecomesASemaphoreEnds(t *testing.T) {
	verifyNoLeak(t)
	q := newQueue(t)
	got := consumers(t, q, 1)
	require.NoError(t, newQueue(t).Delete(context.Background()))
	_, err := server.Dial(t).Do("SET", key(t.Name(), ":version"), "1")
	require.NoError(t, err)
	require.Contains(t, <-got, "it is a semaphore")
}

func TestQueueKeyOfAnotherTypeIsErrWrongTypeAndChangesNothing(t *testing.T) {
	conn := server.Dial(t)
	q := newQueue(t, semaphore.QueueSettings{JobExpiration: time.Hour})
	signal(t, q, "a", "b", "c")
	job := receive(t, q)
	for _, suffix := range []string{"", ":available", ":locked", ":leases", ":queue", ":jobs", ":expiries"} {
		name := key(t.Name(), suffix)
		if suffix != ":queue" { // nobody waits
			_, err := conn.Do("RENAME", name, "saved:"+t.Name())
			require.NoError(t, err)
		}
		_, err := conn.Do("SET", name, "something else")
		require.NoError(t, err)
		for operation, call := range queueOperations(q) {
			if operation == "Delete" && suffix == ":expiries" {
				continue // it goes with the others
			}
			require.ErrorIs(t, call(context.Background()), semaphore.ErrWrongType, "%s: %s", suffix, operation)
		}
		_, err = conn.Do("DEL", name)
		require.NoError(t, err)
		if suffix != ":queue" {
			_, err = conn.Do("RENAME", "saved:"+t.Name(), name)
			require.NoError(t, err)
		}
	}
	require.NoError(t, job.Done(context.Background()))
	require.Equal(t, "b", handle(t, q))
	require.Equal(t, "c", handle(t, q))
	requireNoJobs(t, q)
}

func TestQueueHonoursItsContext(t *testing.T) {
	q := newQueue(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, call := range queueOperations(q) {
		err := call(ctx)
		require.ErrorIs(t, err, semaphore.ErrCanceled, name)
		require.ErrorIs(t, err, context.Canceled, name)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := q.Wait(ctx)
	require.ErrorIs(t, err, semaphore.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

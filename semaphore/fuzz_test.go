package semaphore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// A token that Lock did not return releases nothing, whatever it is.
func FuzzTokens(f *testing.F) {
	for _, token := range []string{
		"", " ", "\n", "a b", "\x00", "\xff\xfe", "*", "88a32451-e5a5-4406-8c39-62c76f3aaea4", "-1", "1 2 3 4 5", strings.Repeat("x", 1<<16),
	} {
		f.Add(token)
	}
	pool := redistest.UserPool(server.Addr)
	f.Cleanup(func() { pool.Close() })
	s, err := semaphore.New(f.Name(), redigoadapter.New(pool), nil, semaphore.Settings{MaxParallelResources: 3})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, token string) {
		held, err := s.Lock()
		require.NoError(t, err)
		refused := semaphore.ErrNotHeld
		if token == "" {
			refused = semaphore.ErrInvalidArgument
		}
		require.ErrorIs(t, s.Unlock(token), refused)
		require.ErrorIs(t, s.Refresh(token), refused)
		if token != "" {
			require.ErrorIs(t, s.Signal(token), refused)
			locked, err := s.IsResourceLocked(token)
			require.NoError(t, err)
			require.False(t, locked)
		}
		free, err := s.GetNumAvailableResources()
		require.NoError(t, err)
		require.Equal(t, 2, free)
		require.NoError(t, s.Unlock(held))
	})
}

// What Signal is given arrives unmodified, once for each time.
func FuzzJobs(f *testing.F) {
	for _, job := range []string{"", " ", "\n", "0", "-1", "nil", "\x00\xff", "1 2 3", "é", strings.Repeat("x", 1<<17)} {
		f.Add(job, "other")
	}
	pool := redistest.UserPool(server.Addr)
	f.Cleanup(func() { pool.Close() })
	q, err := semaphore.NewQueue(f.Name(), redigoadapter.New(pool), nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, one, other string) {
		ctx := context.Background()
		jobs := []string{one, other, one}
		ready, err := q.Signal(ctx, jobs...)
		require.NoError(t, err)
		require.Equal(t, len(jobs), ready)
		for _, expected := range jobs {
			job, err := q.TryWait(ctx)
			require.NoError(t, err)
			require.Equal(t, expected, job.Value)
			require.NoError(t, job.Done(ctx))
		}
	})
}

// What somebody else writes into the inbox of a process gives nobody a permit, and
// keeps nobody from the one that is granted.
func FuzzInboxMessages(f *testing.F) {
	for _, message := range []string{
		"", "\n", "\n\n", "x", "a b c\n", "88a32451-e5a5-4406-8c39-62c76f3aaea4 1 4000000000000\n", " 1 2\n", "t 1 99999999999999999999\n",
		"\x00\xff", "t -1 -1\n", strings.Repeat("t 1 2\n", 20_000),
	} {
		f.Add(message)
	}
	pool := redistest.UserPool(server.Addr)
	f.Cleanup(func() { pool.Close() })
	s, err := semaphore.New(f.Name(), redigoadapter.New(pool), nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, message string) {
		conn := server.Dial(t)
		token, err := s.Lock()
		require.NoError(t, err)
		got := wants(t, s, 1)
		awaitQueue(t, conn, s.Key(), 1)
		process := strings.Fields(queued(t, conn, s.Key())[0])[3]
		_, err = conn.Do("RPUSH", protocol.NewKeys(protocol.Semaphore, s.Key()).Inbox(process), message)
		require.NoError(t, err)
		require.Empty(t, got, "nothing is free")
		require.NoError(t, s.Unlock(token))
		permit := <-got
		require.NoError(t, permit.Context().Err())
		free, err := permit.Release(context.Background())
		require.NoError(t, err)
		require.Equal(t, 1, free)
	})
}

package semaphore_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// monitor collects the commands that clients send to a server, without those
// that scripts call, until the returned function is called.
func monitor(t *testing.T, s *redistest.Server) func() []string {
	t.Helper()
	conn := s.Dial(t)
	require.NoError(t, conn.Send("MONITOR"))
	require.NoError(t, conn.Flush())
	_, err := conn.Receive()
	require.NoError(t, err)
	return func() []string {
		t.Helper()
		_, err := s.Dial(t).Do("ECHO", "end of "+t.Name())
		require.NoError(t, err)
		var commands []string
		for {
			line, err := redis.String(redis.ReceiveWithTimeout(conn, patience))
			require.NoError(t, err)
			if strings.Contains(line, "end of "+t.Name()) {
				return commands
			}
			if !strings.Contains(line, " lua]") {
				commands = append(commands, line)
			}
		}
	}
}

func TestUncontendedLockAndUnlockAreTwoCommands(t *testing.T) {
	s := newSemaphore(t)
	token, err := s.Lock() // the scripts become known to the server
	require.NoError(t, err)
	require.NoError(t, s.Unlock(token))

	stop := monitor(t, server)
	token, err = s.Lock()
	require.NoError(t, err)
	require.NoError(t, s.Unlock(token))
	commands := stop()
	require.Len(t, commands, 2)
	for _, command := range commands {
		require.Contains(t, command, `"EVALSHA"`)
	}
}

func TestWaitersOfAProcessSendAboutOneCommandASecond(t *testing.T) {
	for _, waiters := range []int{1, 300} {
		s := newSemaphore(t)
		conn := server.Dial(t)
		token, err := s.Lock()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { s.LockContext(ctx) })
		}
		awaitQueue(t, conn, t.Name(), waiters)
		stop := monitor(t, server)
		time.Sleep(3 * time.Second)
		commands := stop()
		t.Logf("%d waiters: %d commands in 3 s", waiters, len(commands))
		require.LessOrEqual(t, len(commands), 6)
		cancel()
		wg.Wait()
		require.NoError(t, s.Unlock(token))
		requireAllFree(t, s)
	}
}

func TestHandlesOnOneKeyAndPoolShareOneInbox(t *testing.T) {
	pool := redistest.Pool(t, server.Addr, 0)
	conn := server.Dial(t)
	holder := newSemaphore(t)
	token, err := holder.Lock()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			s, err := semaphore.New(t.Name(), redigoadapter.New(pool), nil) // an adapter of its own
			if err != nil {
				t.Error(err)
				return
			}
			s.LockContext(ctx)
		})
	}
	awaitQueue(t, conn, t.Name(), 10)
	clients := make(map[string]bool)
	for _, entry := range queued(t, conn, t.Name()) {
		clients[strings.Fields(entry)[3]] = true
	}
	require.Len(t, clients, 1)
	cancel()
	wg.Wait()
	require.NoError(t, holder.Unlock(token))
}

func TestEveryKeyHasALifeThatOutlivesEveryLease(t *testing.T) {
	verifyNoLeak(t)
	args, err := redistest.WithUser("../docs/security.md")
	require.NoError(t, err)
	own := redistest.Start(t, args...)
	conn := own.Dial(t)
	s, err := semaphore.New("key", adapter(t, own.Addr), nil, semaphore.Settings{Expiration: time.Second, MaxParallelResources: 3})
	require.NoError(t, err)
	// Each kind of key: held and not unlocked, released, waited for, and
	// abandoned by a process that was killed while it waited.
	for range 3 {
		_, err = s.Lock()
		require.NoError(t, err)
	}
	dead := spawn(t, "hold", part{Addr: own.Addr, Key: "key"}) // its Expiration is a minute
	awaitQueue(t, conn, "key", 1)
	dead.kill()
	token, err := s.Lock()
	require.NoError(t, err)
	require.NoError(t, s.Unlock(token))

	keys, err := redis.Strings(conn.Do("KEYS", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		left, err := redis.Int64(conn.Do("PTTL", key))
		require.NoError(t, err)
		require.Greater(t, left, int64(1000), "%s outlives every lease", key)
		require.LessOrEqual(t, left, int64(2*60*1000+10_000), "%s has a life", key)
	}
}

func TestUnusedSemaphoreExpires(t *testing.T) {
	own := redistest.Start(t)
	conn := own.Dial(t)
	s, err := semaphore.New("key", adapter(t, own.Addr), nil, semaphore.Settings{Expiration: time.Second})
	require.NoError(t, err)
	_, err = s.Lock()
	require.NoError(t, err)
	_, err = s.LockWithCustomTimeout(time.Second) // waits for the end of the first
	if err != nil {
		require.ErrorIs(t, err, semaphore.ErrTimeout)
	}
	start := time.Now()
	await(t, func() bool {
		n, err := redis.Int(conn.Do("DBSIZE"))
		require.NoError(t, err)
		return n == 0
	})
	t.Logf("nothing left %v after the last use", time.Since(start))
	require.Greater(t, time.Since(start), 1500*time.Millisecond)
}

func TestSemaphoreLivesWhileSomebodyWaits(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: time.Second, AutoRenew: true})
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn := server.Dial(t)
	waited := make(chan error, 1)
	go func() {
		_, err := s.LockContext(ctx)
		waited <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	for range 40 { // four times the life of an unused semaphore's lease
		for _, suffix := range []string{"", ":version", ":locked", ":leases", ":queue", ":clients"} {
			left, err := redis.Int64(conn.Do("PTTL", key(t.Name(), suffix)))
			require.NoError(t, err)
			require.Positive(t, left, suffix)
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	require.NoError(t, <-waited)
}

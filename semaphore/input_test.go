package semaphore_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

func TestNewRefusesWrongInputAndSaysWhat(t *testing.T) {
	client := adapter(t, server.Addr)
	var typedNil *redigoadapter.Adapter
	type s = semaphore.Settings
	for _, c := range []struct {
		name     string
		key      string
		client   redisadapter.Redis
		settings []s
		sentinel error
		says     []string
	}{
		{"no key", "", client, nil, semaphore.ErrInvalidArgument, []string{"binding key", "empty"}},
		{"no client", "k", nil, nil, semaphore.ErrInvalidArgument, []string{"client", "nil"}},
		{"nil client of a type", "k", typedNil, nil, semaphore.ErrInvalidArgument, []string{"client", "nil"}},
		{"adapter of a nil pool", "k", redigoadapter.New(nil), nil, semaphore.ErrInvalidArgument, []string{"client", "nil"}},
		{"two settings", "k", client, []s{{}, {}}, semaphore.ErrInvalidSettings, []string{"2 settings", "one"}},
		{"Expiration too short", "k", client, []s{{Expiration: time.Second - 1}}, semaphore.ErrInvalidSettings, []string{"Expiration", "999.999999ms", "1s"}},
		{"Expiration negative", "k", client, []s{{Expiration: -time.Second}}, semaphore.ErrInvalidSettings, []string{"Expiration", "-1s", "1s"}},
		{"Expiration too long", "k", client, []s{{Expiration: 9000 * time.Hour}}, semaphore.ErrInvalidSettings, []string{"Expiration", "9000h", "8760h"}},
		{"TryLockTimeout too short", "k", client, []s{{TryLockTimeout: time.Millisecond}}, semaphore.ErrInvalidSettings, []string{"TryLockTimeout", "1ms", "1s"}},
		{"TryLockTimeout too long", "k", client, []s{{Expiration: time.Minute, TryLockTimeout: time.Minute + 1}}, semaphore.ErrInvalidSettings, []string{"TryLockTimeout", "1m0.000000001s", "1m0s"}},
		{"capacity negative", "k", client, []s{{MaxParallelResources: -1}}, semaphore.ErrInvalidSettings, []string{"MaxParallelResources", "-1", "from 1"}},
		{"capacity too large", "k", client, []s{{MaxParallelResources: 1_000_001}}, semaphore.ErrInvalidSettings, []string{"MaxParallelResources", "1000001", "1000000"}},
		{"attempts negative", "k", client, []s{{LockAttempts: -2}}, semaphore.ErrInvalidSettings, []string{"LockAttempts", "-2", "from 1"}},
		{"owner too long", "k", client, []s{{Owner: strings.Repeat("o", 257)}}, semaphore.ErrInvalidSettings, []string{"Owner", "257", "256"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			made, err := semaphore.New(c.key, c.client, nil, c.settings...)
			require.ErrorIs(t, err, c.sentinel)
			require.Nil(t, made)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestCustomTimeoutHasTheBoundsOfTryLockTimeout(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{Expiration: 5 * time.Second})
	for _, timeout := range []time.Duration{0, -1, time.Second - 1, 5*time.Second + 1} {
		_, err := s.LockWithCustomTimeout(timeout)
		require.ErrorIs(t, err, semaphore.ErrInvalidSettings)
		require.ErrorContains(t, err, timeout.String())
		require.ErrorContains(t, err, "from 1s to Expiration (5s)")
		_, err = s.AcquireWithCustomTimeout(timeout)
		require.ErrorIs(t, err, semaphore.ErrInvalidSettings)
	}
	token, err := s.LockWithCustomTimeout(5 * time.Second)
	require.NoError(t, err)
	require.NoError(t, s.Unlock(token))
}

func TestEmptyTokenIsAnInvalidArgument(t *testing.T) {
	s := newSemaphore(t)
	require.ErrorIs(t, s.Unlock(""), semaphore.ErrInvalidArgument)
	require.ErrorIs(t, s.Refresh(""), semaphore.ErrInvalidArgument)
	_, err := s.IsResourceLocked("")
	require.ErrorIs(t, err, semaphore.ErrInvalidArgument)
	require.ErrorContains(t, err, "token is empty")
}

// operations are all calls that ask Redis.
func operations(s *semaphore.Semaphore) map[string]func() error {
	return map[string]func() error{
		"Lock":    func() error { _, err := s.Lock(); return err },
		"TryLock": func() error { _, err := s.TryLock(); return err },
		"Acquire": func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := s.Acquire(ctx)
			return err
		},
		"Unlock":                   func() error { return s.Unlock("token") },
		"Refresh":                  func() error { return s.Refresh("token") },
		"IsResourceLocked":         func() error { _, err := s.IsResourceLocked("token"); return err },
		"GetNumAvailableResources": func() error { _, err := s.GetNumAvailableResources(); return err },
		"AcquireWithCustomTimeout": func() error { _, err := s.AcquireWithCustomTimeout(3 * time.Second); return err },
	}
}

func TestKeyOfAnotherTypeIsErrWrongType(t *testing.T) {
	conn := server.Dial(t)
	s := newSemaphore(t)
	_, err := conn.Do("SET", key(t.Name(), ""), "something else")
	require.NoError(t, err)
	for name, call := range operations(s) {
		err := call()
		require.ErrorIs(t, err, semaphore.ErrWrongType, name)
		require.ErrorContains(t, err, t.Name(), name)
		var reply *redisadapter.ReplyError
		require.ErrorAs(t, err, &reply, name)
	}
	left, err := redis.String(conn.Do("GET", key(t.Name(), "")))
	require.NoError(t, err)
	require.Equal(t, "something else", left)
}

func TestAnotherVersionIsErrVersion(t *testing.T) {
	conn := server.Dial(t)
	s := newSemaphore(t)
	_, err := conn.Do("SET", key(t.Name(), ":version"), "2")
	require.NoError(t, err)
	for name, call := range operations(s) {
		err := call()
		require.ErrorIs(t, err, semaphore.ErrVersion, name)
		require.ErrorContains(t, err, `version "2"`, name)
	}
}

func TestMissingRightIsErrRedisAtOnce(t *testing.T) {
	own := redistest.Start(t, "--user", redistest.User, "on", ">"+redistest.Password, "~semaphore:*", "-@all",
		"+eval", "+evalsha", "+get", "+time", "+hmget", "+lpos", "+lrange", "+hget", "+zscore")
	pool := redistest.UserPool(own.Addr)
	t.Cleanup(func() { pool.Close() })
	s, err := semaphore.New("key", redigoadapter.New(pool), nil)
	require.NoError(t, err)
	for name, call := range operations(s) {
		if name == "Unlock" {
			continue // reading is enough to say that the token holds nothing
		}
		err := call()
		require.ErrorIs(t, err, semaphore.ErrRedis, name)
		require.NotErrorIs(t, err, semaphore.ErrTimeout, name)
		require.Regexp(t, "can't run this command|NOPERM", err.Error(), name)
		require.NotContains(t, err.Error(), redistest.Password)
	}
}

func TestAnotherVersionEndsAWaitInProgress(t *testing.T) {
	verifyNoLeak(t)
	conn := server.Dial(t)
	s := newSemaphore(t)
	_, err := s.Lock()
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := s.Lock()
		done <- err
	}()
	awaitQueue(t, conn, t.Name(), 1)
	_, err = conn.Do("SET", key(t.Name(), ":version"), "2")
	require.NoError(t, err)
	require.ErrorIs(t, <-done, semaphore.ErrVersion)
	_, err = conn.Do("DEL", key(t.Name(), ":version"))
	require.NoError(t, err)
}

func TestNoRedisAtTheAddressIsErrRedis(t *testing.T) {
	verifyNoLeak(t)
	gone, err := redistest.New()
	require.NoError(t, err)
	gone.Close()
	s, err := semaphore.New("key", adapter(t, gone.Addr), nil)
	require.NoError(t, err, "New does no I/O")
	var wg sync.WaitGroup
	for name, call := range operations(s) {
		wg.Go(func() {
			err := call()
			assert.ErrorIs(t, err, semaphore.ErrRedis, name)
			assert.ErrorContains(t, err, "connection refused", name)
			assert.NotErrorIs(t, err, semaphore.ErrTimeout, name)
			var failure *semaphore.Error
			assert.ErrorAs(t, err, &failure, name)
			assert.Equal(t, "key", failure.Key, name)
		})
	}
	wg.Wait()
}

func TestBindingKeysOfAnyBytesWork(t *testing.T) {
	client := adapter(t, server.Addr)
	for _, key := range []string{"}", "}x", "%}x", "{", "{}", "a}b", "a{b}c", "%", " ", "\x00\xff", "ключ", "a b\r\nc", strings.Repeat("long", 1000)} {
		s, err := semaphore.New(key, client, nil)
		require.NoError(t, err)
		token, err := s.Lock()
		require.NoError(t, err, "%q", key)
		_, err = s.TryLock()
		require.ErrorIs(t, err, semaphore.ErrNotAvailable, "%q", key)
		require.NoError(t, s.Unlock(token), "%q", key)
	}
}

func TestOwnersOfAnyBytesWork(t *testing.T) {
	for _, owner := range []string{"a b", "line\nline", "\x00\xff", "%d %s", strings.Repeat("o", 256)} {
		s := newSemaphore(t, semaphore.Settings{Owner: owner})
		conn := server.Dial(t)
		token, err := s.Lock()
		require.NoError(t, err)
		next := make(chan error, 1)
		go func() {
			token, err := s.Lock()
			if err == nil {
				err = s.Unlock(token)
			}
			next <- err
		}()
		awaitQueue(t, conn, t.Name(), 1)
		require.NoError(t, s.Unlock(token), "%q", owner)
		require.NoError(t, <-next, "%q", owner)
		requireAllFree(t, s)
	}
}

package main

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
)

// In the user's own Redis, the demo passes its checks and leaves no key behind for long,
// also when it is interrupted.
func TestUsersRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("there is no redis-server")
	}
	server := redistest.Start(t)
	look := server.Dial(t)
	_, err := look.Do("SET", "theirs", "untouched")
	require.NoError(t, err)

	p := start(t, "redis://"+server.Addr)
	code, output := p.end(t)
	require.Equal(t, 0, code)
	requireVerdicts(t, output)
	requireOnlyTheirs(t, look)

	for _, moment := range []string{"inside: [a-z]+", "kill -9"} {
		p := start(t, "redis://"+server.Addr)
		p.until(t, moment)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		code, _ := p.end(t)
		require.Equal(t, exitInterrupted, code)
		p.requireGone(t)
		p.requireNoFiles(t)
		requireOnlyTheirs(t, look)
	}
}

// requireOnlyTheirs checks that what the demo has left goes by itself.
func requireOnlyTheirs(t *testing.T, look redis.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		keys, err := redis.Strings(look.Do("KEYS", "*"))
		require.NoError(t, err)
		require.Contains(t, keys, "theirs")
		return len(keys) == 1
	}, time.Minute, 50*time.Millisecond)
}

package protocol

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
)

// The rights in docs/security.md are those that are used, and no more.
func TestRights_AreThoseThatAreUsed(t *testing.T) {
	rights, err := redistest.WithUser("../../docs/security.md")
	require.NoError(t, err)
	var granted []string
	for _, right := range rights {
		if command, ok := strings.CutPrefix(right, "+"); ok {
			granted = append(granted, command)
		}
	}
	used := []string{"eval", "evalsha", "blpop"}
	for _, script := range allScripts() {
		for _, call := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(script.Source(), -1) {
			used = append(used, strings.ToLower(call[1]))
		}
		assert.NotRegexp(t, `redis\.p?call\([^'"]`, strings.ReplaceAll(script.Source(), "redis.call(COUNT, ", ""))
	}
	slices.Sort(granted)
	slices.Sort(used)
	assert.Equal(t, slices.Compact(used), granted)
}

func TestRights_AllowNothingElse(t *testing.T) {
	args, err := redistest.WithUser("../../docs/security.md")
	require.NoError(t, err)
	own := redistest.Start(t, args...)
	pool := redistest.UserPool(own.Addr)
	t.Cleanup(func() { pool.Close() })
	conn := pool.Get()
	defer conn.Close()
	_, err = conn.Do("SET", "semaphore:{a}:x", "1", "PX", 1000)
	require.NoError(t, err)
	for _, command := range []string{
		"GET other", "SET other 1", "BLPOP other 1", "UNLINK other", "EVAL return(redis.call('get','other')) 0",
		"KEYS *", "SCAN 0", "FLUSHALL", "FLUSHDB", "CONFIG GET *", "SCRIPT FLUSH", "ACL LIST", "CLIENT LIST", "INFO",
		"PUBLISH semaphore:x y", "DEL semaphore:{a}:x", "RENAME semaphore:{a}:x semaphore:{a}:y", "SHUTDOWN NOSAVE",
	} {
		words := redis.Args{}
		for _, word := range strings.Fields(command)[1:] {
			words = words.Add(word)
		}
		_, err := conn.Do(strings.Fields(command)[0], words...)
		require.Error(t, err, command)
		assert.Regexp(t, "permission|can't access", err.Error(), command)
	}
}

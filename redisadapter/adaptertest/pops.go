package adaptertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

var pops = []property{
	{"BLPopReturnsElementThatIsThere", blpopReturnsElementThatIsThere},
	{"BLPopReturnsElementPushedWhileItWaits", blpopReturnsElementPushedWhileItWaits},
	{"BLPopTakesTheFirstOfSeveral", blpopTakesTheFirstOfSeveral},
	{"BLPopPassesKeysAndValuesUnmodified", blpopPassesKeysAndValuesUnmodified},
	{"BLPopReturnsErrorOfTheServer", blpopReturnsErrorOfTheServer},
	{"BLPopIsSafeForConcurrentUse", blpopIsSafeForConcurrentUse},
	{"BLPopDoesNotHoldUpEval", blpopDoesNotHoldUpEval},
}

// popped is what BLPop has returned.
type popped struct {
	value string
	ok    bool
	err   error
}

// startPop calls BLPop in a goroutine, which ends with it.
func startPop(ctx context.Context, client redisadapter.Redis, key string, timeout time.Duration) <-chan popped {
	done := make(chan popped, 1)
	go func() {
		value, ok, err := client.BLPop(ctx, key, timeout)
		done <- popped{value, ok, err}
	}()
	return done
}

// await waits for what a BLPop returns.
func await(t *testing.T, done <-chan popped, bound time.Duration) popped {
	t.Helper()
	p, ok := within(bound, done)
	require.True(t, ok, "BLPop does not return")
	return p
}

// requireValue waits for an element.
func requireValue(t *testing.T, want string, done <-chan popped) {
	t.Helper()
	p := await(t, done, patience)
	require.NoError(t, p.err)
	require.True(t, p.ok, "no element")
	require.Equal(t, want, p.value)
}

// requireFailure waits for an error.
func requireFailure(t *testing.T, done <-chan popped, bound time.Duration) error {
	t.Helper()
	p := await(t, done, bound)
	require.Error(t, p.err)
	require.False(t, p.ok, "an element beside an error")
	return p.err
}

func blpopReturnsElementThatIsThere(t *testing.T, s *server) {
	s.do(t, "RPUSH", s.key, "a")
	requireValue(t, "a", startPop(t.Context(), s.client(t), s.key, patience))
	require.Empty(t, s.elements(t, s.key))
}

func blpopReturnsElementPushedWhileItWaits(t *testing.T, s *server) {
	done := startPop(t.Context(), s.client(t), s.key, patience)
	s.awaitBlocked(t, 1)
	s.do(t, "RPUSH", s.key, "a")
	requireValue(t, "a", done)
	require.Empty(t, s.elements(t, s.key))
}

func blpopTakesTheFirstOfSeveral(t *testing.T, s *server) {
	client := s.client(t)
	s.do(t, "RPUSH", s.key, "a", "b", "c")
	requireValue(t, "a", startPop(t.Context(), client, s.key, patience))
	require.Equal(t, []string{"b", "c"}, s.elements(t, s.key))
	requireValue(t, "b", startPop(t.Context(), client, s.key, patience))
	requireValue(t, "c", startPop(t.Context(), client, s.key, patience))
}

func blpopPassesKeysAndValuesUnmodified(t *testing.T, s *server) {
	client := s.client(t)
	key := s.key + binary
	for _, value := range []string{"text", "", "007", "OK", binary} {
		s.do(t, "RPUSH", key, value)
		requireValue(t, value, startPop(t.Context(), client, key, patience))
	}
	large := strings.Repeat(binary, 1<<20/len(binary)+1)
	s.do(t, "RPUSH", key, large)
	p := await(t, startPop(t.Context(), client, key, patience), patience)
	require.NoError(t, p.err)
	require.True(t, p.value == large, "1 MiB came back changed")
}

func blpopReturnsErrorOfTheServer(t *testing.T, s *server) {
	s.do(t, "SET", s.key, "a string")
	err := requireFailure(t, startPop(t.Context(), s.client(t), s.key, patience), patience)
	requireReplyError(t, err, "WRONGTYPE")
}

func blpopIsSafeForConcurrentUse(t *testing.T, s *server) {
	const calls = 20
	client := s.client(t)
	done := make([]<-chan popped, calls)
	for i := range done {
		done[i] = startPop(t.Context(), client, fmt.Sprint(s.key, i), patience)
	}
	s.awaitBlocked(t, calls)
	for i := range done {
		s.do(t, "RPUSH", fmt.Sprint(s.key, i), fmt.Sprint("value ", i))
	}
	for i := range done {
		requireValue(t, fmt.Sprint("value ", i), done[i])
	}
}

// blpopDoesNotHoldUpEval: blocking pops that take the connections of a limited
// pool would stop the very scripts that make them return.
func blpopDoesNotHoldUpEval(t *testing.T, s *server) {
	const calls = 12
	client := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make([]<-chan popped, calls)
	for i := range done {
		done[i] = startPop(ctx, client, fmt.Sprint(s.key, i), 10*patience)
	}
	s.awaitBlocked(t, calls)
	script := redisadapter.NewScript("return redis.call('RPUSH', KEYS[1], ARGV[1])")
	for i := range done {
		eval(t, client, script, []string{s.key + "other"}, "a")
		eval(t, client, script, []string{fmt.Sprint(s.key, i)}, "b")
	}
	for i := range done {
		requireValue(t, "b", done[i])
	}
}

package adaptertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

// binary has what a client might take for the end of something.
const binary = "\x00 \r\n$3\r\n\xff\xfe%s\\ \"'{}\r"

var replies = []property{
	{"EvalReturnsIntegers", evalReturnsIntegers},
	{"EvalReturnsStrings", evalReturnsStrings},
	{"EvalReturnsStatusesAsStrings", evalReturnsStatusesAsStrings},
	{"EvalReturnsNilWithoutError", evalReturnsNilWithoutError},
	{"EvalReturnsEmptyArray", evalReturnsEmptyArray},
	{"EvalReturnsNestedArraysOfEveryKind", evalReturnsNestedArraysOfEveryKind},
	{"EvalPassesKeysAndArgumentsUnmodified", evalPassesKeysAndArgumentsUnmodified},
	{"EvalTakesNeitherKeysNorArguments", evalTakesNeitherKeysNorArguments},
	{"EvalTakesManyArguments", evalTakesManyArguments},
}

// eval runs a script that must not fail.
func eval(t *testing.T, client redisadapter.Redis, script *redisadapter.Script, keys []string, args ...string) any {
	t.Helper()
	reply, err := client.Eval(patient(t), script, keys, args)
	require.NoError(t, err)
	return reply
}

// text is a reply that must be a string, of either type.
func text(t *testing.T, reply any) string {
	t.Helper()
	switch s := reply.(type) {
	case string:
		return s
	case []byte:
		return string(s)
	}
	require.FailNow(t, "not a string", "%T", reply)
	return ""
}

// plain makes every []byte in a reply a string, for comparisons.
func plain(reply any) any {
	switch r := reply.(type) {
	case []byte:
		return string(r)
	case []any:
		elements := make([]any, len(r))
		for i, element := range r {
			elements[i] = plain(element)
		}
		return elements
	}
	return reply
}

func evalReturnsIntegers(t *testing.T, s *server) {
	client := s.client(t)
	script := redisadapter.NewScript("return tonumber(ARGV[1])")
	for _, n := range []int64{0, 1, -1, 1 << 32, -(1 << 32), 1<<53 - 1, -(1<<53 - 1)} {
		require.Equal(t, n, eval(t, client, script, nil, fmt.Sprint(n)))
	}
}

func evalReturnsStrings(t *testing.T, s *server) {
	client := s.client(t)
	script := redisadapter.NewScript("return ARGV[1]")
	for _, value := range []string{"text", "", "17", "OK", "-ERR no error", binary} {
		require.Equal(t, value, text(t, eval(t, client, script, nil, value)))
	}
	large := strings.Repeat(binary, 1<<20/len(binary)+1)
	require.True(t, large == text(t, eval(t, client, script, nil, large)), "1 MiB came back changed")
}

func evalReturnsStatusesAsStrings(t *testing.T, s *server) {
	client := s.client(t)
	for _, status := range []string{"OK", "QUEUED", "PONG"} {
		script := redisadapter.NewScript("return redis.status_reply(ARGV[1])")
		require.Equal(t, status, text(t, eval(t, client, script, nil, status)))
	}
}

func evalReturnsNilWithoutError(t *testing.T, s *server) {
	client := s.client(t)
	require.Nil(t, eval(t, client, redisadapter.NewScript("return nil"), nil))
	require.Nil(t, eval(t, client, redisadapter.NewScript("return redis.call('GET', KEYS[1])"), []string{s.key}))
}

func evalReturnsEmptyArray(t *testing.T, s *server) {
	reply := eval(t, s.client(t), redisadapter.NewScript("return {}"), nil)
	require.IsType(t, []any{}, reply)
	require.Empty(t, reply)
}

func evalReturnsNestedArraysOfEveryKind(t *testing.T, s *server) {
	script := redisadapter.NewScript("return {1, {ARGV[1], false, {}, {-2, {''}}}, false, redis.status_reply('OK'), ARGV[2]}")
	reply := eval(t, s.client(t), script, nil, "a", binary)
	require.Equal(t, []any{
		int64(1),
		[]any{"a", nil, []any{}, []any{int64(-2), []any{""}}},
		nil,
		"OK",
		binary,
	}, plain(reply))
}

func evalPassesKeysAndArgumentsUnmodified(t *testing.T, s *server) {
	client := s.client(t)
	script := redisadapter.NewScript("return {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]}")
	for _, value := range []string{"text", "", "007", "1e3", "nil", binary} {
		keys := []string{s.key, s.key + value}
		reply := eval(t, client, script, keys, value, "", value)
		require.Equal(t, []any{int64(2), int64(3), keys[0], keys[1], value, "", value}, plain(reply))
	}
	script = redisadapter.NewScript("return KEYS[1]")
	for _, key := range []string{"", binary, s.key} {
		require.Equal(t, key, text(t, eval(t, client, script, []string{key})))
	}
}

func evalTakesNeitherKeysNorArguments(t *testing.T, s *server) {
	reply := eval(t, s.client(t), redisadapter.NewScript("return {#KEYS, #ARGV}"), nil)
	require.Equal(t, []any{int64(0), int64(0)}, plain(reply))
}

func evalTakesManyArguments(t *testing.T, s *server) {
	args := make([]string, 3000)
	want := make([]any, len(args))
	for i := range args {
		args[i] = fmt.Sprint(i)
		want[i] = args[i]
	}
	require.Equal(t, want, plain(eval(t, s.client(t), redisadapter.NewScript("return ARGV"), nil, args...)))
}

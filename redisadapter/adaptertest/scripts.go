package adaptertest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

var scripts = []property{
	{"EvalSendsUnknownScript", evalSendsUnknownScript},
	{"EvalSendsKnownScriptByItsHashOnly", evalSendsKnownScriptByItsHashOnly},
	{"EvalSendsSourceOnce", evalSendsSourceOnce},
	{"EvalSurvivesScriptFlush", evalSurvivesScriptFlush},
	{"EvalReturnsErrorsOfCommands", evalReturnsErrorsOfCommands},
	{"EvalReturnsErrorsOfScripts", evalReturnsErrorsOfScripts},
	{"EvalReturnsErrorsOfTheServer", evalReturnsErrorsOfTheServer},
	{"EvalDoesNotRepeatWhatTheServerRefused", evalDoesNotRepeatWhatTheServerRefused},
	{"EvalDoesNotSendWithEndedContext", evalDoesNotSendWithEndedContext},
	{"EvalReturnsAtDeadlineIfServerIsSilent", evalReturnsAtDeadlineIfServerIsSilent},
	{"EvalIsSafeForConcurrentUse", evalIsSafeForConcurrentUse},
	{"IdentityIsComparable", identityIsComparable},
}

// unknownScript makes a script that the server has never seen.
func unknownScript(source string) *redisadapter.Script {
	return redisadapter.NewScript(fmt.Sprintf("-- %d\n%s", time.Now().UnixNano(), source))
}

func evalSendsUnknownScript(t *testing.T, s *server) {
	require.Equal(t, "a", text(t, eval(t, s.client(t), unknownScript("return ARGV[1]"), nil, "a")))
}

func evalSendsKnownScriptByItsHashOnly(t *testing.T, s *server) {
	client, script := s.client(t), unknownScript("return ARGV[1]")
	s.do(t, "SCRIPT", "LOAD", script.Source())
	evalsha, others := s.calls(t, "evalsha"), s.calls(t, "eval", "script|load", "script")
	for range 5 {
		eval(t, client, script, nil, "a")
	}
	require.Equal(t, 5, s.calls(t, "evalsha")-evalsha, "calls of EVALSHA")
	require.Zero(t, s.calls(t, "eval", "script|load", "script")-others, "calls that send the source")
}

func evalSendsSourceOnce(t *testing.T, s *server) {
	client, script := s.client(t), unknownScript("return ARGV[1]")
	before := s.calls(t, "eval", "script|load", "script")
	for range 5 {
		eval(t, client, script, nil, "a")
	}
	require.Equal(t, 1, s.calls(t, "eval", "script|load", "script")-before, "calls that send the source")
}

func evalSurvivesScriptFlush(t *testing.T, s *server) {
	client, script := s.client(t), unknownScript("return ARGV[1]")
	for range 3 {
		require.Equal(t, "a", text(t, eval(t, client, script, nil, "a")))
		s.do(t, "SCRIPT", "FLUSH")
	}
	require.Equal(t, "a", text(t, eval(t, client, script, nil, "a")))
}

// requireReplyError looks for what the server answered in an error.
func requireReplyError(t *testing.T, err error, prefix string) *redisadapter.ReplyError {
	t.Helper()
	var reply *redisadapter.ReplyError
	require.ErrorAs(t, err, &reply)
	require.Equal(t, prefix, reply.Prefix(), "of %q", reply.Message)
	return reply
}

func evalReturnsErrorsOfCommands(t *testing.T, s *server) {
	s.do(t, "SET", s.key, "a string")
	// Up to Redis 6, only pcall keeps the prefix.
	script := redisadapter.NewScript("return redis.pcall('LPOP', KEYS[1])")
	_, err := s.client(t).Eval(patient(t), script, []string{s.key}, nil)
	requireReplyError(t, err, "WRONGTYPE")
}

func evalReturnsErrorsOfScripts(t *testing.T, s *server) {
	client := s.client(t)
	script := redisadapter.NewScript("return redis.error_reply(ARGV[1])")
	for _, message := range []string{"REDSEMTEST one: two  three", "ERR of the script", "CODE -1"} {
		_, err := client.Eval(patient(t), script, nil, []string{message})
		prefix := (&redisadapter.ReplyError{Message: message}).Prefix()
		require.Equal(t, message, requireReplyError(t, err, prefix).Message)
	}
}

func evalReturnsErrorsOfTheServer(t *testing.T, s *server) {
	client := s.client(t)
	for _, source := range []string{"this is no Lua", "error('on purpose')", "return redis.call('NOSUCHCOMMAND')"} {
		_, err := client.Eval(patient(t), unknownScript(source), nil, nil)
		requireReplyError(t, err, "ERR")
	}
}

func evalDoesNotRepeatWhatTheServerRefused(t *testing.T, s *server) {
	client := s.client(t)
	script := redisadapter.NewScript("redis.call('INCR', KEYS[1]) return redis.error_reply('REDSEMTEST refused')")
	s.do(t, "SCRIPT", "LOAD", script.Source())
	_, err := client.Eval(patient(t), script, []string{s.key}, nil)
	requireReplyError(t, err, "REDSEMTEST")
	require.EqualValues(t, "1", s.do(t, "GET", s.key), "number of runs")
}

func evalDoesNotSendWithEndedContext(t *testing.T, s *server) {
	client := s.client(t)
	script := redisadapter.NewScript("return redis.call('INCR', KEYS[1])")
	eval(t, client, script, []string{s.key}) // connected, and the script is known
	before := s.calls(t, "eval", "evalsha")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Eval(cancelled, script, []string{s.key}, nil)
	require.ErrorIs(t, err, context.Canceled)

	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = client.Eval(late, script, []string{s.key}, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.Equal(t, before, s.calls(t, "eval", "evalsha"), "calls")
	require.EqualValues(t, "1", s.do(t, "GET", s.key), "number of runs")
}

func evalReturnsAtDeadlineIfServerIsSilent(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	script := redisadapter.NewScript("return 1")
	eval(t, client, script, nil)
	proxy.Stall(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with Eval
		_, err := client.Eval(ctx, script, nil, nil)
		done <- err
	}()
	err, ok := within(soon, done)
	require.True(t, ok, "Eval waits on after the deadline")
	requireUnknown(t, err)
}

func evalIsSafeForConcurrentUse(t *testing.T, s *server) {
	const goroutines, calls = 50, 20
	client := s.client(t)
	script := unknownScript("return {redis.call('INCR', KEYS[1]), ARGV[1]}")
	ctx := patient(t)
	var ended sync.WaitGroup
	for g := range goroutines {
		ended.Go(func() {
			for c := range calls {
				own := fmt.Sprintf("%d/%d", g, c)
				reply, err := client.Eval(ctx, script, []string{s.key}, []string{own})
				if !assert.NoError(t, err) {
					return
				}
				array, _ := plain(reply).([]any)
				if assert.Len(t, array, 2) {
					assert.Equal(t, own, array[1], "the reply belongs to another call")
				}
			}
		})
	}
	ended.Wait()
	require.EqualValues(t, fmt.Sprint(goroutines*calls), s.do(t, "GET", s.key), "number of runs")
}

// identityIsComparable: redsem keeps clients, or their identities, as keys of a
// map.
func identityIsComparable(t *testing.T, s *server) {
	client := s.client(t)
	require.True(t, reflect.ValueOf(client).Comparable(), "the client")
	if identifier, ok := client.(redisadapter.Identifier); ok {
		identity := identifier.Identity()
		require.NotNil(t, identity)
		require.True(t, reflect.ValueOf(identity).Comparable(), "its identity")
		require.True(t, identity == identifier.Identity(), "its identity changes")
	}
}

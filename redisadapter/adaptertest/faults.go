package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

var faults = []property{
	{"EvalWithLostReplyFailsOrIsRepeated", evalWithLostReplyFailsOrIsRepeated},
	{"BLPopWithLostReplyFailsAndIsNotRepeated", blpopWithLostReplyFailsAndIsNotRepeated},
	{"BLPopWithCutConnectionFailsAndIsNotRepeated", blpopWithCutConnectionFailsAndIsNotRepeated},
	{"EvalFailsWhileServerIsGone", evalFailsWhileServerIsGone},
	{"BLPopFailsWhileServerIsGone", blpopFailsWhileServerIsGone},
	{"EvalWorksWhenServerIsBack", evalWorksWhenServerIsBack},
	{"BLPopWorksWhenServerIsBack", blpopWorksWhenServerIsBack},
}

// requireUnknown sees that an error leaves open what the server has done: it did
// not answer it.
func requireUnknown(t *testing.T, err error) {
	t.Helper()
	var reply *redisadapter.ReplyError
	require.Error(t, err)
	require.NotErrorAs(t, err, &reply)
}

// happened waits until a proxy has done what it was told to do.
func happened(t *testing.T, event <-chan struct{}) {
	t.Helper()
	_, ok := within(patience, event)
	require.True(t, ok, "the fault did not happen")
}

func evalWithLostReplyFailsOrIsRepeated(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	script := redisadapter.NewScript("return redis.call('INCR', KEYS[1])")
	require.EqualValues(t, 1, eval(t, client, script, []string{s.key}))
	cut := proxy.CutReply(s.key)
	reply, err := client.Eval(patient(t), script, []string{s.key}, nil)
	happened(t, cut)
	if err == nil {
		require.EqualValues(t, 3, reply)
	} else {
		requireUnknown(t, err)
	}
}

// blpopWithLostReplyFailsAndIsNotRepeated: the element is gone, and only the caller
// can find out which it was.
func blpopWithLostReplyFailsAndIsNotRepeated(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	requireNone(t, startPop(t.Context(), client, s.key, time.Millisecond)) // connected
	s.do(t, "RPUSH", s.key, "lost", "next")
	cut := proxy.CutReply(s.key)
	requireUnknown(t, requireFailure(t, startPop(t.Context(), client, s.key, 10*patience), patience))
	happened(t, cut)
	require.Equal(t, []string{"next"}, s.elements(t, s.key))
}

func blpopWithCutConnectionFailsAndIsNotRepeated(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	done := startPop(t.Context(), client, s.key, 10*patience)
	s.awaitBlocked(t, 1)
	before := s.calls(t, "blpop")
	proxy.Cut()
	requireUnknown(t, requireFailure(t, done, patience))
	s.awaitBlocked(t, 0)
	s.do(t, "RPUSH", s.key, "a")
	require.Equal(t, []string{"a"}, s.elements(t, s.key))
	require.Equal(t, before, s.calls(t, "blpop"), "calls of BLPOP")
}

var add = redisadapter.NewScript("return redis.call('RPUSH', KEYS[1], ARGV[1])")

func evalFailsWhileServerIsGone(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	eval(t, client, add, []string{s.key}, "a")
	proxy.Refuse(true)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with Eval
		_, err := client.Eval(ctx, add, []string{s.key}, []string{"b"})
		done <- err
	}()
	err, ok := within(patience, done)
	require.True(t, ok, "Eval does not return")
	requireUnknown(t, err)
}

func blpopFailsWhileServerIsGone(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	requireNone(t, startPop(t.Context(), client, s.key, time.Millisecond)) // connected
	proxy.Refuse(true)
	requireUnknown(t, requireFailure(t, startPop(t.Context(), client, s.key, 4*patience), patience))
}

func evalWorksWhenServerIsBack(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	eval(t, client, add, []string{s.key}, "a")
	proxy.Refuse(true)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	client.Eval(short, add, []string{s.key}, []string{"b"})
	proxy.Refuse(false)
	eventually(t, "Eval works again", func() bool { // the first may meet a connection that has died
		_, err := client.Eval(patient(t), add, []string{s.key}, []string{"c"})
		return err == nil
	})
	require.Contains(t, s.elements(t, s.key), "c")
}

func blpopWorksWhenServerIsBack(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	requireNone(t, startPop(t.Context(), client, s.key, time.Millisecond)) // connected
	proxy.Refuse(true)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	client.BLPop(short, s.key, 4*patience)
	proxy.Refuse(false)
	eventually(t, "BLPop works again", func() bool {
		_, _, err := client.BLPop(patient(t), s.key, time.Millisecond)
		return err == nil
	})
	s.do(t, "RPUSH", s.key, "a")
	requireValue(t, "a", startPop(t.Context(), client, s.key, patience))
}

package adaptertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

var waits = []property{
	{"BLPopWaitsAsLongAsItsTimeout", blpopWaitsAsLongAsItsTimeout},
	{"BLPopWithTinyTimeoutReturns", blpopWithTinyTimeoutReturns},
	{"BLPopTellsTheServerItsTimeout", blpopTellsTheServerItsTimeout},
	{"BLPopWaitsLongerThanReadTimeouts", blpopWaitsLongerThanReadTimeouts},
	{"BLPopWaitsForTheReplyToItsTimeout", blpopWaitsForTheReplyToItsTimeout},
	{"BLPopDoesNotSendWithEndedContext", blpopDoesNotSendWithEndedContext},
	{"BLPopEndsWhenCancelled", blpopEndsWhenCancelled},
	{"BLPopEndsAtDeadline", blpopEndsAtDeadline},
	{"BLPopEndsWhenCancelledIfServerIsSilent", blpopEndsWhenCancelledIfServerIsSilent},
	{"ClientIsUsableAfterCancellation", clientIsUsableAfterCancellation},
}

// coarse is how much sooner than asked a timeout may end: servers count whole
// milliseconds, and on another clock.
const coarse = 20 * time.Millisecond

// requireNone waits for the end of a pop that found no element.
func requireNone(t *testing.T, done <-chan popped) {
	t.Helper()
	require.Equal(t, popped{}, await(t, done, patience))
}

func blpopWaitsAsLongAsItsTimeout(t *testing.T, s *server) {
	client := s.client(t)
	for _, timeout := range []time.Duration{50 * time.Millisecond, 1100 * time.Millisecond} { // no whole seconds
		start := time.Now()
		requireNone(t, startPop(t.Context(), client, s.key, timeout))
		require.GreaterOrEqual(t, time.Since(start), timeout-coarse)
	}
}

// blpopWithTinyTimeoutReturns: to the server, a timeout of 0 means for ever.
func blpopWithTinyTimeoutReturns(t *testing.T, s *server) {
	client := s.client(t)
	for _, timeout := range []time.Duration{time.Millisecond, time.Microsecond, time.Nanosecond} {
		requireNone(t, startPop(t.Context(), client, s.key, timeout))
	}
}

// blpopTellsTheServerItsTimeout: the server must end the pop by itself. It would
// serve a pop that only the client has ended for as long as the network keeps
// that from it.
func blpopTellsTheServerItsTimeout(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	done := startPop(t.Context(), client, s.key, time.Second)
	s.awaitBlocked(t, 1)
	proxy.Stall(true)
	requireForgotten(t, s)
	proxy.Stall(false)
	await(t, done, patience)
	require.Equal(t, []string{"a"}, s.elements(t, s.key), "the pop was repeated")
}

func blpopWaitsLongerThanReadTimeouts(t *testing.T, s *server) {
	done := startPop(t.Context(), s.client(t), s.key, 10*longBlock)
	s.awaitBlocked(t, 1)
	select {
	case p := <-done:
		require.FailNow(t, "BLPop has ended on its own", "%+v", p)
	case <-time.After(longBlock):
	}
	s.do(t, "RPUSH", s.key, "a")
	requireValue(t, "a", done)
}

// blpopWaitsForTheReplyToItsTimeout: a client that gives up when the timeout is
// over, while the reply is on its way, loses the element that may be in it.
func blpopWaitsForTheReplyToItsTimeout(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	requireNone(t, startPop(t.Context(), client, s.key, time.Millisecond)) // connected
	proxy.SetDelay(300 * time.Millisecond)
	requireNone(t, startPop(t.Context(), client, s.key, 100*time.Millisecond))
}

func blpopDoesNotSendWithEndedContext(t *testing.T, s *server) {
	client := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 { // the end of the context may win a race
		requireNone(t, startPop(t.Context(), client, s.key+"empty", time.Millisecond)) // connected
		s.do(t, "DEL", s.key)
		s.do(t, "RPUSH", s.key, "a")
		before := s.calls(t, "blpop")
		err := requireFailure(t, startPop(ctx, client, s.key, patience), patience)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, before, s.calls(t, "blpop"), "calls of BLPOP")
	}
	require.Equal(t, []string{"a"}, s.elements(t, s.key))
}

func blpopEndsWhenCancelled(t *testing.T, s *server) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := startPop(ctx, s.client(t), s.key, 10*patience)
	s.awaitBlocked(t, 1)
	cancel()
	require.ErrorIs(t, requireFailure(t, done, soon), context.Canceled)
	requireForgotten(t, s)
}

func blpopEndsAtDeadline(t *testing.T, s *server) {
	client := s.client(t)
	requireNone(t, startPop(t.Context(), client, s.key, time.Millisecond)) // connected
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done := startPop(ctx, client, s.key, 10*patience)
	<-ctx.Done()
	require.ErrorIs(t, requireFailure(t, done, soon), context.DeadlineExceeded)
	requireForgotten(t, s)
}

// requireForgotten sees that the server gives no element to a pop that is over.
func requireForgotten(t *testing.T, s *server) {
	t.Helper()
	s.awaitBlocked(t, 0)
	s.do(t, "RPUSH", s.key, "a")
	require.Equal(t, []string{"a"}, s.elements(t, s.key), "the server served a pop that was over")
}

func blpopEndsWhenCancelledIfServerIsSilent(t *testing.T, s *server) {
	proxy, client := s.proxied(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := startPop(ctx, client, s.key, 10*patience)
	s.awaitBlocked(t, 1)
	proxy.Stall(true)
	cancel()
	require.ErrorIs(t, requireFailure(t, done, soon), context.Canceled)
}

func clientIsUsableAfterCancellation(t *testing.T, s *server) {
	client := s.client(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := startPop(ctx, client, s.key, 10*patience)
		s.awaitBlocked(t, 1)
		cancel()
		requireFailure(t, done, soon)
		s.awaitBlocked(t, 0)
	}
	script := redisadapter.NewScript("return redis.call('RPUSH', KEYS[1], ARGV[1])")
	require.EqualValues(t, 1, eval(t, client, script, []string{s.key}, "a"))
	requireValue(t, "a", startPop(t.Context(), client, s.key, patience))
}

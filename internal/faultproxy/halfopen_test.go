package faultproxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHalfOpenTellsTheClientNothing(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	p.HalfOpen()
	c.send("goes nowhere")
	c.requireSilence()
	c.send("so does the next")
	c.requireSilence()
	require.Empty(t, server.lines)
	require.Equal(t, 1, p.Connections())
}

func TestHalfOpenEndsTheConnectionToTheServer(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	p.HalfOpen()
	select {
	case <-server.ended:
	case <-time.After(patience):
		require.FailNow(t, "the server's side is still open")
	}
	c.requireSilence()
}

func TestHalfOpenLosesWhatIsOnItsWay(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.send("wait")
	require.Equal(t, "wait", server.received(t))
	p.Stall(true)
	c.send("held back")
	server.release <- struct{}{}
	c.requireSilence() // the answer is held back too
	p.HalfOpen()
	p.Stall(false)
	c.requireSilence()
	require.Empty(t, server.lines)
}

func TestHalfOpenLeavesLaterConnectionsAlone(t *testing.T) {
	p, _ := start(t)
	old := dial(t, p)
	old.requireServed()
	p.HalfOpen()
	p.HalfOpen() // once more changes nothing
	dial(t, p).requireServed()
	old.requireSilence()
}

func TestHalfOpenConnectionsEndWithTheirClients(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	c.requireServed()
	p.HalfOpen()
	c.Close()
	require.Eventually(t, func() bool { return p.Connections() == 0 }, patience, time.Millisecond)
}

func TestCutEndsHalfOpenConnections(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	c.requireServed()
	p.HalfOpen()
	p.Cut()
	c.requireCut()
}

func TestCloseEndsHalfOpenConnections(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	c.requireServed()
	p.HalfOpen()
	p.Close()
	c.requireCut()
}

func TestSilenceReplyComesAfterTheServerHasAnswered(t *testing.T) {
	p, server := start(t)
	c, other := dial(t, p), dial(t, p)
	other.requireServed()
	server.received(t)
	silent := p.SilenceReply("vain")
	c.send("answered in vain")
	wait(t, silent)
	require.Equal(t, "answered in vain", server.received(t))
	c.requireSilence()
	other.requireServed()
}

func TestSilenceRequestComesBeforeTheServerHearsOfIt(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	silent := p.SilenceRequest("lost")
	c.send("lost")
	wait(t, silent)
	c.requireSilence()
	require.Empty(t, server.lines)
	dial(t, p).requireServed()
}

func TestDripPassesBytesOnInSmallPieces(t *testing.T) {
	const bytes, every = 10, 10 * time.Millisecond
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	p.Drip(bytes, every)
	text := strings.Repeat("x", 20*bytes-1) // and the end of the line
	sent := time.Now()
	c.send(text)
	require.Equal(t, text, server.received(t))
	there := time.Since(sent)
	require.GreaterOrEqual(t, there, 20*every)
	require.Equal(t, "re: "+text, c.reply())
	require.GreaterOrEqual(t, time.Since(sent), there+10*every, "the way back takes time too")
}

func TestDripEndsAtOnceWithZero(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	p.Drip(1, aWhile)
	c.send("ab")
	c.requireSilence()
	p.Drip(0, 0)
	require.Equal(t, "ab", server.received(t))
	require.Equal(t, "re: ab", c.reply())
}

func TestCloseEndsConnectionsThatDrip(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	p.Drip(1, time.Hour)
	c.send("never comes")
	c.requireSilence()
	p.Close()
	c.requireCut()
}

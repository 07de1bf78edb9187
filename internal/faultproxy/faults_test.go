package faultproxy_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStallHoldsBackRequests(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	require.Equal(t, "hello", server.received(t))
	p.Stall(true)
	c.send("held back")
	c.requireSilence()
	require.Empty(t, server.lines)
}

func TestStallHoldsBackReplies(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.send("wait")
	require.Equal(t, "wait", server.received(t))
	p.Stall(true)
	server.release <- struct{}{}
	c.requireSilence()
	p.Stall(false)
	require.Equal(t, "re: wait", c.reply())
}

func TestStallHoldsBackOnNewConnections(t *testing.T) {
	p, server := start(t)
	p.Stall(true)
	c := dial(t, p)
	c.send("held back")
	c.requireSilence()
	require.Empty(t, server.lines)
}

func TestEndOfStallPassesOnInOrderWhatWasHeldBack(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	p.Stall(true)
	p.Stall(true) // once more changes nothing
	for i := range 100 {
		c.send(fmt.Sprint(i))
	}
	c.requireSilence()
	p.Stall(false)
	p.Stall(false)
	for i := range 100 {
		require.Equal(t, fmt.Sprintf("re: %d", i), c.reply())
	}
}

func TestStallHoldsBackTheEndOfAConnection(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	p.Stall(true)
	c.send("last words")
	c.Close()
	time.Sleep(aWhile)
	require.Equal(t, 1, p.Connections())
	p.Stall(false)
	require.Equal(t, "last words", server.received(t))
	require.Eventually(t, func() bool { return p.Connections() == 0 }, patience, time.Millisecond)
}

func TestCutEndsStalledConnections(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	p.Stall(true)
	c.send("lost")
	p.Cut()
	c.requireCut()
	p.Stall(false)
	dial(t, p).requireServed()
	require.Equal(t, "hello", server.received(t))
}

func TestCutReplyCutsAfterTheServerHasAnswered(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	cut := p.CutReply("")
	c.send("answered in vain")
	c.requireCut()
	wait(t, cut)
	require.Equal(t, "answered in vain", server.received(t))
}

func TestCutReplyIsGoodForOneRequest(t *testing.T) {
	p, _ := start(t)
	cut := p.CutReply("")
	c := dial(t, p)
	c.send("one")
	c.requireCut()
	wait(t, cut)
	dial(t, p).requireServed()
}

func TestCutReplyWaitsForARequestWithItsText(t *testing.T) {
	p, _ := start(t)
	first, second := dial(t, p), dial(t, p)
	cut := p.CutReply("needle")
	first.requireServed()
	second.requireServed()
	second.send("needle")
	second.requireCut()
	wait(t, cut)
	first.requireServed()
}

func TestCutReplyPassesOutstandingReplies(t *testing.T) {
	p, server := start(t)
	first, second := dial(t, p), dial(t, p)
	first.send("wait")
	require.Equal(t, "wait", server.received(t))
	cut := p.CutReply("")
	server.release <- struct{}{}
	require.Equal(t, "re: wait", first.reply())
	second.send("asked after")
	second.requireCut()
	wait(t, cut)
}

func TestCutRepliesAddUp(t *testing.T) {
	p, _ := start(t)
	first, second := p.CutReply("a"), p.CutReply("a")
	for _, cut := range []<-chan struct{}{first, second} {
		c := dial(t, p)
		c.send("a")
		c.requireCut()
		wait(t, cut)
	}
	dial(t, p).requireServed()
}

func TestCutRequestCutsBeforeTheServerHearsOfIt(t *testing.T) {
	p, server := start(t)
	cut := p.CutRequest("lost")
	c := dial(t, p)
	c.requireServed()
	require.Equal(t, "hello", server.received(t))
	c.send("lost")
	c.requireCut()
	wait(t, cut)
	dial(t, p).requireServed()
	require.Equal(t, "hello", server.received(t))
}

func TestDelayHoldsInEachDirection(t *testing.T) {
	p, server := start(t)
	c := dial(t, p)
	c.requireServed()
	server.received(t)
	p.SetDelay(aWhile)
	sent := time.Now()
	c.send("slow")
	server.received(t)
	require.GreaterOrEqual(t, time.Since(sent), aWhile)
	require.Equal(t, "re: slow", c.reply())
	require.GreaterOrEqual(t, time.Since(sent), 2*aWhile)
}

func TestDelayDoesNotLimitThroughput(t *testing.T) {
	const requests = 200
	p, _ := start(t)
	c := dial(t, p)
	p.SetDelay(aWhile)
	sent := time.Now()
	for i := range requests {
		c.send(fmt.Sprint(i))
		time.Sleep(100 * time.Microsecond) // so that they are parcels of their own
	}
	for i := range requests {
		require.Equal(t, fmt.Sprintf("re: %d", i), c.reply())
	}
	// One after the other they would take requests*aWhile at least.
	require.Less(t, time.Since(sent), requests*aWhile/2)
}

func TestOrderIsKeptWhenTheDelayShrinks(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	c.requireServed()
	for i := range 20 {
		p.SetDelay(time.Duration(20-i) * 10 * time.Millisecond)
		c.send(fmt.Sprint(i))
		time.Sleep(time.Millisecond)
	}
	for i := range 20 {
		require.Equal(t, fmt.Sprintf("re: %d", i), c.reply())
	}
}

func TestHalfClosedConnectionStillGetsItsReplies(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	p.SetDelay(aWhile)
	c.send("last question")
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	require.Equal(t, "re: last question", c.reply())
	_, err := c.replies.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

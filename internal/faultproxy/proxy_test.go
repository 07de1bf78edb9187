package faultproxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is the longest that a test waits for what should come soon.
	patience = 30 * time.Second

	// aWhile is how long a test watches that something does not happen.
	aWhile = 100 * time.Millisecond
)

// echo is a server that answers each line with "re: " and the line, but the line
// "wait" only after release.
type echo struct {
	addr    string
	lines   chan string // what it has received
	release chan struct{}
	ended   chan struct{} // one for each connection that has ended
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{addr: listener.Addr().String(), lines: make(chan string, 10_000), release: make(chan struct{}, 1), ended: make(chan struct{}, 10_000)}
	var ended sync.WaitGroup
	ended.Go(func() { // ends with listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ended.Go(func() { e.serve(conn) }) // ends with the client, hence the proxy
		}
	})
	t.Cleanup(func() {
		listener.Close()
		ended.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer func() { e.ended <- struct{}{} }()
	defer conn.Close()
	for scanner := bufio.NewScanner(conn); scanner.Scan(); {
		e.lines <- scanner.Text()
		if scanner.Text() == "wait" {
			<-e.release
		}
		if _, err := fmt.Fprintf(conn, "re: %s\n", scanner.Text()); err != nil {
			return
		}
	}
}

// received waits for the next line that the server has received.
func (e *echo) received(t *testing.T) string {
	t.Helper()
	select {
	case line := <-e.lines:
		return line
	case <-time.After(patience):
		require.FailNow(t, "the server has received nothing")
		return ""
	}
}

func start(t *testing.T) (*faultproxy.Proxy, *echo) {
	t.Helper()
	server := startEcho(t)
	return faultproxy.Start(t, server.addr), server
}

// client is one connection to a proxy.
type client struct {
	net.Conn
	t       *testing.T
	replies *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &client{Conn: conn, t: t, replies: bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	c.t.Helper()
	_, err := fmt.Fprintln(c, line)
	require.NoError(c.t, err)
}

func (c *client) reply() string {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(patience)))
	line, err := c.replies.ReadString('\n')
	require.NoError(c.t, err)
	return strings.TrimSuffix(line, "\n")
}

// requireCut waits for the end of the connection, before which nothing may come.
func (c *client) requireCut() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(patience)))
	line, err := c.replies.ReadString('\n')
	require.Empty(c.t, line)
	require.Error(c.t, err)
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "the connection is still open")
}

// requireSilence watches that no byte comes for a while.
func (c *client) requireSilence() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(aWhile)))
	_, err := c.replies.ReadByte()
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded, "got a byte, or an end")
}

func (c *client) requireServed() {
	c.t.Helper()
	c.send("hello")
	require.Equal(c.t, "re: hello", c.reply())
}

func wait(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		require.FailNow(t, "did not happen")
	}
}

func TestPassesLargeStreamUnchangedInBothDirections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var ended sync.WaitGroup
	ended.Go(func() { // ends with the stream
		conn, err := listener.Accept()
		if err == nil {
			io.Copy(conn, conn)
			conn.Close()
		}
	})
	t.Cleanup(func() { listener.Close(); ended.Wait() })
	c := dial(t, faultproxy.Start(t, listener.Addr().String()))

	sent := make([]byte, 5<<20)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(sent)
	ended.Go(func() {
		c.Write(sent)
		c.Conn.(*net.TCPConn).CloseWrite()
	})
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(c.replies)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
}

func TestConnectionsCountsClients(t *testing.T) {
	p, _ := start(t)
	require.Zero(t, p.Connections())
	first, second := dial(t, p), dial(t, p)
	first.requireServed()
	second.requireServed()
	require.Equal(t, 2, p.Connections())
	first.Close()
	require.Eventually(t, func() bool { return p.Connections() == 1 }, patience, time.Millisecond)
}

func TestCutEndsPresentConnections(t *testing.T) {
	p, _ := start(t)
	first, second := dial(t, p), dial(t, p)
	first.requireServed()
	second.requireServed()
	p.Cut()
	first.requireCut()
	second.requireCut()
}

func TestCutLeavesLaterConnectionsAlone(t *testing.T) {
	p, _ := start(t)
	dial(t, p).requireServed()
	p.Cut()
	dial(t, p).requireServed()
}

func TestRefuseEndsPresentConnections(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	c.requireServed()
	p.Refuse(true)
	c.requireCut()
}

func TestRefuseTurnsNewConnectionsAway(t *testing.T) {
	p, _ := start(t)
	p.Refuse(true)
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err)
}

func TestAcceptsAgainOnTheSameAddressAfterRefuse(t *testing.T) {
	p, _ := start(t)
	addr := p.Addr()
	for range 20 {
		p.Refuse(true)
		p.Refuse(true) // once more changes nothing
		p.Refuse(false)
		p.Refuse(false)
		dial(t, p).requireServed()
	}
	require.Equal(t, addr, p.Addr())
}

func TestClientIsCutIfTheServerIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener.Close()
	dial(t, faultproxy.Start(t, listener.Addr().String())).requireCut()
}

func TestCloseEndsConnectionsAndCanBeRepeated(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	c.requireServed()
	p.Stall(true)
	p.SetDelay(time.Hour)
	c.send("held back")
	p.Close()
	c.requireCut()
	p.Close()
	p.Refuse(false)
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err)
}

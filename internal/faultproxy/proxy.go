// Package faultproxy puts the faults of a network between a client and a server:
// cut connections, refused ones, half-open ones, silence, lost replies, delay, bytes
// that trickle. It knows nothing of what is said on the connections; it passes bytes.
package faultproxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// dialTimeout bounds the connection to the server.
	dialTimeout = 10 * time.Second

	// relistenTimeout bounds the wait for the proxy's own port, should
	// somebody else have taken it while connections were refused.
	relistenTimeout = 30 * time.Second
)

// Ports for proxies. They lie below the range from which systems pick ports for
// outgoing connections, so that nobody gets the port of a proxy that refuses
// connections for the time being.
const (
	firstPort = 15000
	lastPort  = 32000
)

// Proxy passes connections on to a server until Close. Its methods may be called
// by many goroutines at once.
type Proxy struct {
	addr   string
	server string
	delay  atomic.Int64         // time.Duration, one way
	drip   atomic.Pointer[drip] // nil: bytes do not trickle
	ended  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused; guarded by mu
	links    map[*link]struct{}
	passing  chan struct{} // closed while bytes may pass; guarded by mu
	traps    []*trap       // in the order in which they were set; guarded by mu
	closed   bool          // guarded by mu
}

// Start runs a proxy for one test. It ends with the test.
func Start(tb testing.TB, server string) *Proxy {
	tb.Helper()
	p, err := New(server)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// New runs a proxy to the server at an address, until Close. The server need not
// be there yet.
func New(server string) (*Proxy, error) {
	p := &Proxy{server: server, links: make(map[*link]struct{}), passing: make(chan struct{})}
	close(p.passing)
	var err error
	for range 100 { // others may have taken the port
		port := firstPort + rand.IntN(lastPort-firstPort)
		p.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		p.mu.Lock()
		err = p.listen()
		p.mu.Unlock()
		if err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("faultproxy: %w", err)
}

// listen starts to take connections. The caller holds mu.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = listener
	p.ended.Go(func() { p.accept(listener) })
	return nil
}

// accept takes connections until listener is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		l := newLink(p, client)
		p.mu.Lock()
		if p.listener != listener { // refused meanwhile
			p.mu.Unlock()
			client.Close()
			return
		}
		p.links[l] = struct{}{}
		p.ended.Go(l.run) // under mu: Close waits only after it
		p.mu.Unlock()
	}
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// Addr is the address for clients, 127.0.0.1:PORT.
func (p *Proxy) Addr() string { return p.addr }

// Connections is the number of connections that clients have to the proxy now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut closes all present connections, to the clients and to the server. Bytes on
// their way are lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// cut does the work of Cut. The caller holds mu.
func (p *Proxy) cut() {
	for l := range p.links {
		l.close()
	}
}

// HalfOpen ends all present connections to the server, and tells the clients nothing,
// as when a host has vanished behind a router: theirs stay open and silent, and what
// they write goes nowhere. They end when the client closes them, or with Cut or
// Close. New connections work.
func (p *Proxy) HalfOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.halfOpen()
	}
}

// Refuse, with true, cuts all connections and refuses new ones, as a host does on
// which no server runs; with false, it takes connections again, at the same
// address.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case refuse && p.listener != nil:
		p.listener.Close()
		p.listener = nil
		p.cut()
	case !refuse && p.listener == nil:
		for deadline := time.Now().Add(relistenTimeout); ; time.Sleep(10 * time.Millisecond) {
			err := p.listen()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				panic(fmt.Sprintf("faultproxy: cannot take connections again: %v", err))
			}
		}
	}
}

// Stall, with true, holds back all bytes in both directions, and the ends of
// connections too; each side sees a peer that says nothing. With false, all that
// was held back is passed on, in order. Connections are accepted all the
// while.
func (p *Proxy) Stall(stall bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.passing:
		if stall {
			p.passing = make(chan struct{})
		}
	default:
		if !stall {
			close(p.passing)
		}
	}
}

// gate gives a channel that is closed when bytes may pass.
func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passing
}

// SetDelay makes all bytes that come from now on arrive later by delay, in each
// direction. It is latency: any number of bytes can be on their way at a time,
// and they keep their order.
func (p *Proxy) SetDelay(delay time.Duration) { p.delay.Store(int64(delay)) }

// drip is how bytes trickle.
type drip struct {
	bytes int
	every time.Duration
}

// Drip makes bytes trickle, those too that are on their way: so many at a time, every
// so often, on each connection and in each direction. 0 bytes: no more.
func (p *Proxy) Drip(bytes int, every time.Duration) {
	if bytes <= 0 {
		p.drip.Store(nil)
		return
	}
	p.drip.Store(&drip{bytes, every})
}

// Close cuts all connections and ends the proxy; when it returns, all of its
// goroutines have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.cut()
	p.mu.Unlock()
	p.ended.Wait()
}

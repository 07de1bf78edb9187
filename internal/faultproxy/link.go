package faultproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a client's connection and the one to the server that belongs to it.
// Four goroutines serve it: in each direction one reads and one writes, with
// a queue between them that holds what is on its way. close ends all of them;
// halfOpen all but the one that reads what the client writes, which drops it.
type link struct {
	proxy  *Proxy
	client net.Conn
	doomed atomic.Pointer[trap] // ends the link at the server's next byte

	mu     sync.Mutex
	server net.Conn      // nil until connected; guarded by mu
	dead   bool          // nothing passes any more; guarded by mu
	closed bool          // guarded by mu
	done   chan struct{} // closed when dead
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, done: make(chan struct{})}
}

// run serves the link until both sides have ended it, or close.
func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.close()
	server, err := net.DialTimeout("tcp", l.proxy.server, dialTimeout)
	if err != nil || !l.connected(server) {
		return
	}
	var requests, replies queue
	requests.init()
	replies.init()
	var ended sync.WaitGroup
	ended.Go(func() { l.read(l.client, &requests, nil) })
	ended.Go(func() { l.write(server, &requests, l.springRequest) })
	ended.Go(func() { l.read(server, &replies, l.springReply) })
	ended.Go(func() { l.write(l.client, &replies, nil) })
	ended.Wait()
}

// connected notes the connection to the server, unless the link was closed
// meanwhile.
func (l *link) connected(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		server.Close()
		return false
	}
	l.server = server
	if l.dead {
		server.Close()
	}
	return true
}

// close ends the link to both sides.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
	if !l.closed {
		l.closed = true
		l.client.Close()
	}
}

// fail is close for a link that is not half-open: the client of such a one is told
// nothing.
func (l *link) fail() {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if !dead {
		l.close()
	}
}

// halfOpen ends the link to the server, and tells the client nothing.
func (l *link) halfOpen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
}

// kill lets nothing pass any more. The caller holds mu.
func (l *link) kill() {
	if l.dead {
		return
	}
	l.dead = true
	close(l.done)
	if l.server != nil {
		l.server.Close()
	}
}

// isDead says that nothing passes any more.
func (l *link) isDead() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// read puts on their way the bytes that come from a side, until it ends or they
// spring a trap, which ends the link.
func (l *link) read(from net.Conn, on *queue, springs func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		due := time.Now().Add(time.Duration(l.proxy.delay.Load()))
		if n > 0 && !l.isDead() {
			if springs != nil && springs(buffer[:n]) {
				return
			}
			on.put(parcel{data: append([]byte(nil), buffer[:n]...), due: due})
		}
		if err != nil {
			on.put(parcel{end: err, due: due})
			return
		}
	}
}

// write delivers to a side what is on its way, each parcel at its time, until the
// end that the other side made, or close.
func (l *link) write(to net.Conn, from *queue, springs func([]byte) bool) {
	for {
		p, ok := from.take(l.done)
		if !ok || !l.await(p.due) {
			return
		}
		if errors.Is(p.end, io.EOF) {
			to.(*net.TCPConn).CloseWrite()
			return
		}
		if p.end != nil {
			l.fail()
			return
		}
		if springs != nil && springs(p.data) {
			return
		}
		if err := l.deliver(to, p.data); err != nil {
			l.fail()
			return
		}
	}
}

// deliver writes to a side, in small pieces if the proxy drips.
func (l *link) deliver(to net.Conn, data []byte) error {
	for len(data) > 0 {
		piece := data
		if drip := l.proxy.drip.Load(); drip != nil {
			piece = data[:min(drip.bytes, len(data))]
			if !l.await(time.Now().Add(drip.every)) {
				return net.ErrClosed
			}
		}
		n, err := to.Write(piece)
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// await waits until a parcel is due and the proxy lets it pass. It is false if
// nothing passes any more.
func (l *link) await(due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	select {
	case <-l.done: // what was held back is lost, should both be ready
		return false
	default:
	}
	select {
	case <-l.proxy.gate():
		return true
	case <-l.done:
		return false
	}
}

// springRequest looks whether a request runs into a trap. It is true if the link
// ends before the request is passed on.
func (l *link) springRequest(request []byte) bool {
	if l.doomed.Load() != nil {
		return false
	}
	t := l.proxy.trapFor(request)
	if t == nil {
		return false
	}
	if t.beforeRequest {
		t.spring(l)
		return true
	}
	l.doomed.Store(t) // before the request can be answered
	return false
}

// springReply ends the link if the server answers a request whose reply is to be
// lost.
func (l *link) springReply([]byte) bool {
	t := l.doomed.Load()
	if t == nil {
		return false
	}
	t.spring(l)
	return true
}

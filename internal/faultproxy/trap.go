package faultproxy

import "bytes"

// trap waits for a request, to end its connection.
type trap struct {
	text          []byte
	beforeRequest bool          // rather than before the reply
	silent        bool          // the client is not told
	sprung        chan struct{} // closed when the connection has ended
}

// spring ends a link.
func (t *trap) spring(l *link) {
	if t.silent {
		l.halfOpen()
	} else {
		l.close()
	}
	close(t.sprung)
}

// CutReply lets the next request pass that contains text (any request, if text is
// empty), waits until the server answers it, and then cuts the connection before
// any of the answer has gone back: the server has done what it was asked, and the
// client can't know. Each call is good for one request; those whose answers are
// still outstanding don't count. The channel is closed when it has happened.
//
// The text must arrive in one piece with the request, and the client must
// not send its next request before it has the answer to the last.
func (p *Proxy) CutReply(text string) <-chan struct{} {
	return p.set(&trap{text: []byte(text)})
}

// CutRequest cuts the connection of the next request that contains text (any
// request, if text is empty) before the server has seen any of it. The channel
// is closed when it has happened.
func (p *Proxy) CutRequest(text string) <-chan struct{} {
	return p.set(&trap{text: []byte(text), beforeRequest: true})
}

// SilenceReply is CutReply, but that the connection is half-open then, as after
// HalfOpen: the client waits for its answer.
func (p *Proxy) SilenceReply(text string) <-chan struct{} {
	return p.set(&trap{text: []byte(text), silent: true})
}

// SilenceRequest is CutRequest, but that the connection is half-open then, as after
// HalfOpen: the client waits for an answer that nobody was asked for.
func (p *Proxy) SilenceRequest(text string) <-chan struct{} {
	return p.set(&trap{text: []byte(text), beforeRequest: true, silent: true})
}

func (p *Proxy) set(t *trap) <-chan struct{} {
	t.sprung = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t.sprung
}

// trapFor takes out the first trap for a request, if there is one.
func (p *Proxy) trapFor(request []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range p.traps {
		if bytes.Contains(request, t.text) {
			p.traps = append(p.traps[:i], p.traps[i+1:]...)
			return t
		}
	}
	return nil
}

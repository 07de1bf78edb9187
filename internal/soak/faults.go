package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/internal/faultproxy"
)

// faultPause is the mean time from one fault to the next.
const faultPause = 300 * time.Millisecond

// injector makes faults, one after the other; those of a network last while others
// happen, those of the server have it for themselves.
type injector struct {
	*world
	rand   *rand.Rand
	ctx    context.Context // ends with the faults
	said   func(format string, args ...any)
	counts map[string]int

	lasting sync.WaitGroup // faults that end by themselves
	err     error          // of a child that ended, or of what can't go on
}

// fault is a kind of fault, with the number of its cards in the deck.
type fault struct {
	name  string
	cards int
	make  func(*injector)
}

var faults = []fault{
	{"cut", 2, func(in *injector) { in.proxy().Cut() }},
	{"cut reply", 2, func(in *injector) { in.proxy().CutReply("") }},
	{"cut request", 2, func(in *injector) { in.proxy().CutRequest("") }},
	{"half-open", 2, func(in *injector) { in.proxy().HalfOpen() }},
	{"silent reply", 1, func(in *injector) { in.proxy().SilenceReply("") }},
	{"refuse", 1, func(in *injector) { in.refuse(in.proxy()) }},
	{"stall", 1, func(in *injector) { in.stall(in.proxy()) }},
	{"drip", 1, func(in *injector) { in.drip(in.proxy()) }},
	{"delay", 1, func(in *injector) { in.delay(in.proxy()) }},
	{"kill child", 3, (*injector).killChild},
	{"pause server", 1, (*injector).pauseServer},
	{"client kill", 1, (*injector).killClients},
	{"script flush", 1, (*injector).flushScripts},
	{"server full", 1, (*injector).fill},
	{"delete key", 2, (*injector).deleteKey},
	{"restart server", 1, (*injector).restart},
	{"flush all", 1, (*injector).flushAll},
	{"fail over", 1, (*injector).failOver},
}

// run makes faults until ctx ends, and then lets none of them last. The deck has every
// kind, so each comes again and again.
func (in *injector) run() (err error) {
	defer in.lasting.Wait()
	defer catch(&err)
	var deck []fault
	for in.sleep(in.between(faultPause/3, faultPause*5/3)) && in.err == nil {
		if len(deck) == 0 {
			for _, f := range faults {
				for range f.cards {
					deck = append(deck, f)
				}
			}
			in.rand.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		}
		in.said("fault: %s", deck[0].name)
		deck[0].make(in)
		in.counts[deck[0].name]++
		deck = deck[1:]
	}
	return in.err
}

// sleep waits; it is false if the faults are to end.
func (in *injector) sleep(d time.Duration) bool {
	select {
	case <-in.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (in *injector) between(least, most time.Duration) time.Duration {
	return least + time.Duration(in.rand.Int64N(int64(most-least)))
}

// proxy draws the client that is struck, a child or not.
func (in *injector) proxy() *faultproxy.Proxy { return in.proxies[in.rand.IntN(len(in.proxies))] }

// last ends a fault after some time.
func (in *injector) last(d time.Duration, end func()) {
	in.lasting.Go(func() {
		in.sleep(d)
		end()
	})
}

func (in *injector) refuse(p *faultproxy.Proxy) {
	p.Refuse(true)
	in.last(in.between(50*time.Millisecond, 2*time.Second), func() { p.Refuse(false) })
}

func (in *injector) stall(p *faultproxy.Proxy) {
	p.Stall(true)
	in.last(in.between(100*time.Millisecond, 5*time.Second), func() { p.Stall(false) })
}

func (in *injector) drip(p *faultproxy.Proxy) {
	p.Drip(1+in.rand.IntN(50), time.Millisecond)
	in.last(in.between(500*time.Millisecond, 2*time.Second), func() { p.Drip(0, 0) })
}

func (in *injector) delay(p *faultproxy.Proxy) {
	p.SetDelay(in.between(time.Millisecond, 300*time.Millisecond))
	in.last(in.between(500*time.Millisecond, 3*time.Second), func() { p.SetDelay(0) })
}

// killChild has another one follow at once.
func (in *injector) killChild() {
	if len(in.children) == 0 {
		return
	}
	c := in.children[in.rand.IntN(len(in.children))]
	if err := c.kill(); err != nil {
		in.judge.accuse("%v", err)
	}
	in.err = c.start()
}

// unwell makes a fault of the server, which does not answer meanwhile.
func (in *injector) unwell(f func()) {
	from := crashtest.Clock()
	f()
	in.judge.ill(from)
}

func (in *injector) pauseServer() {
	in.unwell(func() {
		in.server.Pause(in.must)
		in.sleep(in.between(500*time.Millisecond, 3*time.Second))
		in.server.Resume(in.must)
	})
}

func (in *injector) killClients() { in.do("CLIENT", "KILL", "TYPE", "normal") }

func (in *injector) flushScripts() { in.do("SCRIPT", "FLUSH") }

func (in *injector) fill() {
	in.unwell(func() {
		in.server.Full(in.must, true)
		in.sleep(in.between(200*time.Millisecond, 2*time.Second))
		in.server.Full(in.must, false)
	})
}

// restart loses nothing: each write is in the file before it is answered.
func (in *injector) restart() {
	in.unwell(func() {
		in.server.Kill()
		in.sleep(in.between(time.Millisecond, 500*time.Millisecond))
		in.server.Restart(in.must)
	})
}

// catch turns the panic of a must into an error.
func catch(err *error) {
	if f := recover(); f != nil {
		failed, ok := f.(failure)
		if !ok {
			panic(f)
		}
		*err = fmt.Errorf("%s", string(failed))
	}
}

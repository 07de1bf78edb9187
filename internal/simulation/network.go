package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/redsem/redsem/redisadapter"
)

// What a client sees of a connection that is of no use.
var (
	errReset   = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	errRefused = redisadapter.NotSent(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
)

// fate is what becomes of one message and its answer.
type fate struct {
	up, down    time.Duration // how long they are under way
	lostRequest bool
	lostReply   bool
	breaks      time.Duration // when the client learns of a loss; 0: never
	late        bool          // the request comes when its sender has long given up
}

// fate draws one.
func (w *world) fate(step string, p *process) fate {
	r := w.chance(step, p.id)
	f := fate{up: w.delay(r), down: w.delay(r)}
	if w.calm {
		return f
	}
	switch {
	case r.Float64() < w.Losses:
		f.lostRequest = true
	case r.Float64() < w.Losses:
		f.lostReply = true
	}
	if r.IntN(2) == 0 { // else it waits until its own time is over
		f.breaks = f.up + f.down + time.Duration(r.Int64N(int64(50*time.Millisecond)))
	}
	if r.Float64() < w.Losses {
		f.late = true
		f.up += time.Duration(r.Int64N(int64(15 * time.Second)))
	}
	return f
}

// delay draws how long a message is under way: mostly about Link, sometimes far
// longer.
func (w *world) delay(r *rand.Rand) time.Duration {
	d := w.Link/2 + time.Duration(r.Int64N(int64(w.Link)))
	if !w.calm && r.Float64() < w.Stragglers {
		d += time.Duration(r.Int64N(int64(4 * time.Second)))
	}
	return d
}

// purpose tells apart what several goroutines send at one moment, for the same process:
// by the number of the token in it, in the order of the acquires. The caller holds mu.
func (w *world) purpose(step string, args []string) string {
	if len(args) < 4 {
		return step
	}
	if _, ok := w.tokens[args[3]]; !ok && step == "acquire" {
		w.tokens[args[3]] = len(w.tokens)
	}
	return fmt.Sprint(step, w.tokens[args[3]])
}

// client is the redisadapter.Redis of a process.
type client struct {
	w *world
	p *process
}

type answer struct {
	value any
	ok    bool
	err   error
}

// Identity makes that each process has its own connections.
func (c *client) Identity() any { return c }

// Eval sends a script through the network.
func (c *client) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	w, p := c.w, c.p
	w.mu.Lock()
	step := w.names[script.SHA()]
	f := w.fate(w.purpose(step, args), p)
	hold, reachable := p.link()
	w.happened("%s of %d is sent: %v", step, p.id, reachable)
	if f.late {
		w.counts.Late++
	}
	w.mu.Unlock()
	if !reachable {
		sleep(ctx, f.up)
		return nil, errRefused
	}
	answers := make(chan answer, 4)
	run := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.down || w.ended {
			return
		}
		value, err := w.arrive(p, step, script, keys, args)
		if !f.lostReply {
			p.receive(f.down, func() { answers <- answer{value: value, err: err} })
		} else {
			w.counts.Lost++
		}
	}
	if !f.lostRequest {
		time.AfterFunc(hold+f.up, run)
	}
	if f.breaks > 0 && (f.lostRequest || f.lostReply || f.late) {
		time.AfterFunc(hold+f.breaks, func() { answers <- answer{err: errReset} })
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// BLPop sends a blocking pop through the network.
func (c *client) BLPop(ctx context.Context, key string, timeout time.Duration) (string, bool, error) {
	w, p := c.w, c.p
	w.mu.Lock()
	f := w.fate("blpop", p)
	hold, reachable := p.link()
	w.happened("blpop of %d is sent: %v", p.id, reachable)
	w.mu.Unlock()
	if !reachable {
		sleep(ctx, f.up)
		return "", false, errRefused
	}
	answers := make(chan answer, 4)
	reset := func() { answers <- answer{err: errReset} }
	at := &pop{process: p, key: key, fail: func() { p.receive(f.down, reset) }}
	at.answer = func(value string, ok bool) {
		w.happened("inbox of %d: %v", p.id, ok)
		if f.lostReply { // popped, and gone
			w.counts.Lost++
			at.fail()
			return
		}
		p.receive(f.down, func() { answers <- answer{value: value, ok: ok} })
	}
	time.AfterFunc(hold+f.up, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case w.down:
			at.fail()
		case !f.lostRequest && !w.ended:
			w.blocked = append(w.blocked, at)
			w.serveBlocked()
		}
	})
	gone := func() { // the server hears of it
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blocked = slices.DeleteFunc(w.blocked, func(p *pop) bool { return p == at })
	}
	timer := time.AfterFunc(hold+f.up+timeout, func() {
		gone()
		if f.lostRequest {
			reset()
		} else {
			answers <- answer{}
		}
	})
	defer timer.Stop()
	select {
	case a := <-answers:
		text, _ := a.value.(string)
		return text, a.ok, a.err
	case <-ctx.Done():
	}
	time.AfterFunc(f.down, gone)
	select {
	case a := <-answers:
		text, _ := a.value.(string)
		return text, a.ok, a.err
	default:
		return "", false, ctx.Err()
	}
}

package main

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/semaphore"
)

// record is what a player tells of an operation; the events are those of the crash
// test. Left is also the end of an operation that holds nothing.
type record struct {
	crashtest.Record
	Source int    // a client of this process, or a child; each has its own numbers
	Key    string // of the semaphore or queue
	Kind   string // of the operation
	Class  string `json:",omitempty"` // of the error
}

// alive is the event that tells that all earlier ones have been written.
const alive crashtest.Event = "alive"

// classes are the kinds of errors that calls may end with; the first that matches counts.
var classes = []struct {
	name string
	err  error
}{
	{"exceeds capacity", semaphore.ErrExceedsCapacity},
	{"redis failed", semaphore.ErrRedis},
	{"lost", semaphore.ErrLost},
	{"not held", semaphore.ErrNotHeld},
	{"not available", semaphore.ErrNotAvailable},
	{"timeout", semaphore.ErrTimeout},
	{"canceled", semaphore.ErrCanceled},
}

const unknown = "unknown"

func classOf(err error) string {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return unknown
}

// mayEnd says whether an operation on a key may end with an error of that class.
func mayEnd(kind, key, class string) bool {
	switch class {
	case unknown:
		return false
	case "exceeds capacity":
		return kind == "acquire n" && key == sized
	case "not available":
		return kind == "try"
	}
	return true
}

// valueOf makes the value of a job: when it was signalled, and what makes it unique.
func valueOf(at int64, source int, op int64, i int) string {
	return strconv.FormatInt(at, 10) + "." + strconv.Itoa(source) + "." + strconv.FormatInt(op, 10) + "." + strconv.Itoa(i)
}

// signalledAt reads the time from a value; 0 if it is none.
func signalledAt(value string) int64 {
	at, _, _ := strings.Cut(value, ".")
	n, _ := strconv.ParseInt(at, 10, 64)
	return n
}

// op is an operation of a player.
type op struct {
	p     *part
	n     int64
	key   string
	kind  string
	asked int64
}

// part is the players of one client, and where their records go.
type part struct {
	source int
	write  func(record) // sets At; the order of calls is that of times
	ops    atomic.Int64
}

// ask begins an operation.
func (p *part) ask(kind, key string) *op {
	o := &op{p: p, n: p.ops.Add(1), key: key, kind: kind, asked: crashtest.Clock()}
	o.note(crashtest.Record{Event: crashtest.Asked})
	return o
}

func (o *op) note(r crashtest.Record) {
	r.Op = o.n
	o.p.write(record{Record: r, Source: o.p.source, Key: o.key, Kind: o.kind})
}

// ended notes how the operation ended.
func (o *op) ended(err error) {
	r := record{Record: crashtest.Record{Op: o.n, Event: crashtest.Left}, Source: o.p.source, Key: o.key, Kind: o.kind}
	if err != nil {
		r.Event, r.Class, r.Err = crashtest.Failed, classOf(err), err.Error()
		if r.Class == "not held" || r.Class == "lost" {
			r.Event = crashtest.Lost
		}
	}
	o.p.write(r)
}

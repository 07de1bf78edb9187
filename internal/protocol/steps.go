// Package protocol is the part of redsem that both sides of the connection
// agree on: the keys, the Lua steps, and what they answer. Each step has its
// contract at the head of its file in lua/.
package protocol

import (
	"context"
	"strconv"
	"time"

	"github.com/redsem/redsem/redisadapter"
)

// Version is that of the protocol (FORMAT in the files lua/*/kind.lua).
const Version = "1"

// ClaimWindow is the longest first lease of a permit that was granted through
// the queue (CLAIM in lua/line.lua).
const ClaimWindow = 3 * time.Second

// CallKept is how long the name of a call is known at least (KEEP in lua/open.lua).
const CallKept = 10 * time.Second

// Steps sends the steps of one semaphore, or of one job queue, on behalf of one
// process. It may be copied.
//
// A step serves both: of a queue, a permit is a job. One that is ready is free, one
// that a consumer works on is held.
type Steps struct {
	Kind     Kind
	Client   redisadapter.Redis
	Keys     Keys
	Process  string        // the client id
	Capacity int           // with which a missing semaphore is created; of a queue: 0
	Lease    time.Duration // sets the life of the keys
	Once     bool          // of a queue: a job ends with its lease, and is not delivered again
}

// Grant tells that a queued token holds its permits until End (server ms).
type Grant struct {
	Token string
	Fence int64
	End   int64
}

// Header is what every step answers.
type Header struct {
	Reading
	More   bool    // a batch was full: tend at once
	Grants []Grant // of this process
}

// Outcome is what became of an acquire.
type Outcome int64

// The outcomes, as acquire.lua numbers them.
const (
	NotAvailable Outcome = iota // a try, and none free
	Granted
	Queued
	Void    // the call came too late to count
	Exceeds // more permits than there are
)

// Waiter is a token that wants permits.
type Waiter struct {
	Token   string
	Permits int
	Lease   time.Duration
	Owner   string
	Process string // the client id with which it was queued, if that may be another than the sender's
}

// Entry is the waiter's entry in the queue; the scripts take it apart.
func (w Waiter) Entry(process string) string {
	if w.Process != "" {
		process = w.Process
	}
	return w.Token + " " + strconv.Itoa(w.Permits) + " " + ms(w.Lease) + " " + process + " " + w.Owner
}

// Acquired is the answer of Acquire.
type Acquired struct {
	Header
	Outcome  Outcome
	End      int64 // Granted: end of the lease. Server ms.
	Fence    int64 // Granted.
	Ticket   int64 // Queued.
	NextEnd  int64 // Queued: the first end of a lease. Server ms, 0: none.
	Places   int64 // Queued: places before this one.
	Capacity int64 // of the semaphore as it is
	Job      Job   // Granted, of a queue.
}

// Job is what a consumer gets.
type Job struct {
	Content    string
	Deliveries int64 // how often it was handed over, this time included
	ID         int64 // the same at every delivery; those of later jobs are greater
}

// Call names a call, so that it can be told from its copies.
type Call struct {
	Name      string // the same when it is sent again
	VoidAfter int64  // server time (ms) after which it shall have no effect, 0: never
	Repeated  bool   // it was sent before
}

func (c Call) args(rest ...string) []string {
	return append([]string{c.Name, strconv.FormatInt(c.VoidAfter, 10), bit(c.Repeated)}, rest...)
}

// Acquire asks for permits; queue says whether to wait in the queue if they are
// not free. The call's name is the token.
func (s Steps) Acquire(ctx context.Context, w Waiter, queue bool, voidAfter int64, repeated bool) (Acquired, error) {
	s.Lease = w.Lease
	args := Call{w.Token, voidAfter, repeated}.args(strconv.Itoa(w.Permits), bit(queue), w.Owner)
	if s.Kind == Queue {
		args = append(args, s.mode())
	}
	r, err := s.run(ctx, scripts[s.Kind].acquire, args...)
	a := Acquired{Header: r.header, Outcome: Outcome(r.int()), End: r.int(), Fence: r.int(), Capacity: r.int()}
	switch {
	case a.Outcome == Queued:
		a.Ticket, a.NextEnd, a.Places = a.End, a.Fence, r.int()
	case a.Outcome == Granted && s.Kind == Queue:
		r.int()
		a.Job = r.job()
	}
	return a, r.done(err)
}

// mode is how a job is handed over.
func (s Steps) mode() string {
	if s.Once {
		return "2"
	}
	return "1"
}

// Release gives the permits of a token back. call names this call: the same when
// it is sent again. held is false if the token held nothing.
func (s Steps) Release(ctx context.Context, token, call string) (h Header, held bool, free int64, err error) {
	return s.release(ctx, token, call)
}

// Finish is Release for a job that shall not be delivered again.
func (s Steps) Finish(ctx context.Context, token, call string) (h Header, held bool, ready int64, err error) {
	return s.release(ctx, token, call, "1")
}

func (s Steps) release(ctx context.Context, args ...string) (h Header, held bool, free int64, err error) {
	if s.Kind == Queue && len(args) == 2 {
		args = append(args, "0")
	}
	r, err := s.run(ctx, scripts[s.Kind].release, args...)
	held, free = r.int() == 1, r.int()
	return r.header, held, free, r.done(err)
}

// Renewal is a token and the lease that it shall have from now.
type Renewal struct {
	Token string
	Lease time.Duration
}

// Renew extends leases. It answers their ends (server ms), 0 for a token that
// holds nothing.
func (s Steps) Renew(ctx context.Context, renewals []Renewal) (Header, []int64, error) {
	r, err := s.run(ctx, scripts[s.Kind].renew, renewalArgs(nil, renewals)...)
	ends := r.ints(len(renewals))
	return r.header, ends, r.done(err)
}

// Leave takes waiters out of the queue, or releases them if they were granted.
func (s Steps) Leave(ctx context.Context, waiters []Waiter) (Header, error) {
	r, err := s.run(ctx, scripts[s.Kind].leave, s.entryArgs(nil, waiters)...)
	return r.header, r.done(err)
}

// Queueing is a waiter with its place.
type Queueing struct {
	Waiter
	Ticket int64
}

// Tending is all that a process says in one tend.
type Tending struct {
	Waiting   bool  // it has waiters
	VoidAfter int64 // server time (ms) after which nobody is queued again; 0: never
	Renew     []Renewal
	Leave     []Waiter
	Requeue   []Queueing
	Look      []Waiter // to look for, the nearest to the head first
}

// Tended is the answer of Tend.
type Tended struct {
	Header
	NextEnd  int64   // the first end of a lease. Server ms, 0: none.
	Places   int64   // before the first of Look
	Capacity int64   // 0: the semaphore does not exist
	Ends     []int64 // of Renew, 0: lost. Server ms.
	Found    []int64 // of Look: 1, or 0 if neither queued nor granted
}

// Tend says and learns all there is for a process.
func (s Steps) Tend(ctx context.Context, t Tending) (Tended, error) {
	args := []string{
		bit(t.Waiting), strconv.Itoa(len(t.Renew)), strconv.Itoa(len(t.Leave)), strconv.Itoa(len(t.Requeue)),
		strconv.Itoa(len(t.Look)), strconv.FormatInt(t.VoidAfter, 10),
	}
	args = renewalArgs(args, t.Renew)
	args = s.entryArgs(args, t.Leave)
	for _, q := range t.Requeue {
		args = append(args, q.Token, q.Entry(s.Process), strconv.FormatInt(q.Ticket, 10))
	}
	args = s.entryArgs(args, t.Look)
	r, err := s.run(ctx, scripts[s.Kind].tend, args...)
	answer := Tended{Header: r.header, NextEnd: r.int(), Places: r.int(), Capacity: r.int(), Ends: r.ints(len(t.Renew)), Found: r.ints(-1)}
	if len(answer.Found) != len(t.Look) && answer.Capacity != 0 {
		r.fail("%d waiters found of %d", len(answer.Found), len(t.Look))
	}
	return answer, r.done(err)
}

// Status answers how many permits are free, of how many, and whether a token
// holds.
func (s Steps) Status(ctx context.Context, token string) (h Header, free, capacity int64, held bool, err error) {
	r, err := s.run(ctx, scripts[s.Kind].status, token)
	free, capacity, held = r.int(), r.int(), r.int() == 1
	return r.header, free, capacity, held, r.done(err)
}

func renewalArgs(args []string, renewals []Renewal) []string {
	for _, r := range renewals {
		args = append(args, r.Token, ms(r.Lease))
	}
	return args
}

func (s Steps) entryArgs(args []string, waiters []Waiter) []string {
	for _, w := range waiters {
		args = append(args, w.Token, w.Entry(s.Process))
	}
	return args
}

func bit(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// ms writes a duration in whole milliseconds.
func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Package protocol is the part of redsem that both sides of the connection
// agree on: the keys, the Lua steps, and what they answer. Each step has its
// contract at the head of its file in lua/.
package protocol

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redsem/redsem/redisadapter"
)

// Version is that of the protocol ('1' in lua/open.lua and lua/work.lua).
const Version = "1"

// ClaimWindow is the longest first lease of a permit that was granted through
// the queue (CLAIM in lua/work.lua).
const ClaimWindow = 3 * time.Second

// Steps sends the steps of one semaphore on behalf of one process. It may be
// copied.
type Steps struct {
	Client   redisadapter.Redis
	Keys     Keys
	Process  string        // the client id
	Capacity int           // with which a missing semaphore is created
	Lease    time.Duration // sets the life of the keys
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
	Void // the call came too late to count
)

// Waiter is a token that wants permits.
type Waiter struct {
	Token   string
	Permits int
	Lease   time.Duration
	Owner   string
}

// Entry is the waiter's entry in the queue; the scripts take it apart.
func (w Waiter) Entry(process string) string {
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
}

// Acquire asks for permits; queue says whether to wait in the queue if they are
// not free. voidAfter is a server time (ms) after which the call shall have no
// effect, 0 for never. repeated says that the call was sent before.
func (s Steps) Acquire(ctx context.Context, w Waiter, queue bool, voidAfter int64, repeated bool) (Acquired, error) {
	s.Lease = w.Lease
	r, err := s.run(ctx, acquireScript, w.Token, strconv.Itoa(w.Permits), bit(queue),
		strconv.FormatInt(voidAfter, 10), w.Owner, bit(repeated))
	a := Acquired{Header: r.header, Outcome: Outcome(r.int()), End: r.int(), Fence: r.int(), Capacity: r.int()}
	if a.Outcome == Queued {
		a.Ticket, a.NextEnd, a.Places = a.End, a.Fence, r.int()
	}
	return a, r.done(err)
}

// Release gives the permits of a token back. call names this call: the same when
// it is sent again. held is false if the token held nothing.
func (s Steps) Release(ctx context.Context, token, call string) (h Header, held bool, free int64, err error) {
	r, err := s.run(ctx, releaseScript, token, call)
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
	r, err := s.run(ctx, renewScript, renewalArgs(nil, renewals)...)
	ends := r.ints(len(renewals))
	return r.header, ends, r.done(err)
}

// Leave takes waiters out of the queue, or releases them if they were granted.
func (s Steps) Leave(ctx context.Context, waiters []Waiter) (Header, error) {
	r, err := s.run(ctx, leaveScript, s.entryArgs(nil, waiters)...)
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
	r, err := s.run(ctx, tendScript, args...)
	answer := Tended{Header: r.header, NextEnd: r.int(), Places: r.int(), Capacity: r.int(), Ends: r.ints(len(t.Renew)), Found: r.ints(-1)}
	if len(answer.Found) != len(t.Look) && answer.Capacity != 0 {
		r.fail("%d waiters found of %d", len(answer.Found), len(t.Look))
	}
	return answer, r.done(err)
}

// Status answers how many permits are free, of how many, and whether a token
// holds.
func (s Steps) Status(ctx context.Context, token string) (h Header, free, capacity int64, held bool, err error) {
	r, err := s.run(ctx, statusScript, token)
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

// run sends a step and reads the head of its reply.
func (s Steps) run(ctx context.Context, script *redisadapter.Script, args ...string) (*reply, error) {
	line := make([]string, 0, 3+len(args))
	line = append(line, s.Process, strconv.Itoa(s.Capacity), ms(s.Lease))
	line = append(line, args...)
	sent := Now()
	raw, err := s.Client.Eval(ctx, script, s.Keys.fixed, line)
	r := &reply{}
	if err != nil {
		return r, err
	}
	r.rest, _ = raw.([]any)
	r.header.Reading = Reading{Sent: sent, Server: r.int()}
	r.header.More = r.int() == 1
	r.header.Grants = r.grants()
	return r, nil
}

// reply is read element by element; the first that is not as expected makes
// done fail.
type reply struct {
	header Header
	rest   []any
	err    error
}

func (r *reply) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("unexpected reply of a script: "+format, args...)
	}
}

func (r *reply) next() any {
	if len(r.rest) == 0 {
		r.fail("too short")
		return nil
	}
	first := r.rest[0]
	r.rest = r.rest[1:]
	return first
}

func (r *reply) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok {
		r.fail("%v in place of a number", v)
	}
	return n
}

// ints reads an array of n numbers, of any length if n < 0.
func (r *reply) ints(n int) []int64 {
	v := r.next()
	list, ok := v.([]any)
	if !ok || (n >= 0 && len(list) != n) {
		r.fail("%v in place of %d numbers", v, n)
		return nil
	}
	inner := reply{rest: list}
	numbers := make([]int64, len(list))
	for i := range numbers {
		numbers[i] = inner.int()
	}
	if inner.err != nil {
		r.err = inner.err
	}
	return numbers
}

func (r *reply) grants() []Grant {
	switch text := r.next().(type) {
	case string:
		return ParseGrants(text)
	case []byte:
		return ParseGrants(string(text))
	default:
		r.fail("%v in place of grants", text)
		return nil
	}
}

// done is err, or what was wrong with the reply.
func (r *reply) done(err error) error {
	if err != nil {
		return err
	}
	return r.err
}

// ParseGrants reads a message: one grant a line, token, fence and end. Lines that
// are not of that form are skipped: somebody else wrote them.
func ParseGrants(message string) []Grant {
	if message == "" {
		return nil
	}
	grants := make([]Grant, 0, 1+strings.Count(message, "\n"))
	for line := range strings.Lines(message) {
		token, numbers, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fence, end, _ := strings.Cut(numbers, " ")
		g := Grant{Token: token}
		var err, err2 error
		g.Fence, err = strconv.ParseInt(fence, 10, 64)
		g.End, err2 = strconv.ParseInt(end, 10, 64)
		if token != "" && err == nil && err2 == nil {
			grants = append(grants, g)
		}
	}
	return grants
}

func bit(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// ms writes a duration in whole milliseconds.
func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

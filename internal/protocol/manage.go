package protocol

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Resize sets the capacity of a semaphore, or adds to it. The outcome is Granted, Void, or
// NotAvailable if the capacity would be out of bounds. It answers the capacity
// as it is.
func (s Steps) Resize(ctx context.Context, call Call, by int, add bool) (h Header, o Outcome, capacity int64, err error) {
	r, err := s.run(ctx, scripts[s.Kind].resize, call.args(strconv.Itoa(by), bit(add))...)
	o, capacity = Outcome(r.int()), r.int()
	return r.header, o, capacity, r.done(err)
}

// Reclaim takes back what is held by ended leases, and answers how many those
// were.
func (s Steps) Reclaim(ctx context.Context) (Header, int64, error) {
	r, err := s.run(ctx, scripts[s.Kind].reclaim)
	reclaimed := r.int()
	return r.header, reclaimed, r.done(err)
}

// Delete removes everything. The outcome is Granted or Void.
func (s Steps) Delete(ctx context.Context, call Call) (Header, Outcome, error) {
	r, err := s.run(ctx, scripts[s.Kind].remove, call.args()...)
	o := Outcome(r.int())
	return r.header, o, r.done(err)
}

// Signal adds jobs to a queue, that end after life if they are not delivered, 0 for
// never. The outcome is Granted or Void. It answers how many jobs are ready.
func (s Steps) Signal(ctx context.Context, call Call, life time.Duration, jobs []string) (h Header, o Outcome, ready int64, err error) {
	r, err := s.run(ctx, scripts[s.Kind].signal, append(call.args(ms(life)), jobs...)...)
	o, ready = Outcome(r.int()), r.int()
	return r.header, o, ready, r.done(err)
}

// Fetch hands over the job that a waiting consumer was granted. It answers the end
// of its lease (server ms), 0 if the token holds nothing.
func (s Steps) Fetch(ctx context.Context, token string, lease time.Duration) (h Header, end int64, job Job, err error) {
	r, err := s.run(ctx, scripts[s.Kind].fetch, token, ms(lease), s.mode())
	end, job = r.int(), r.job()
	return r.header, end, job, r.done(err)
}

// Inspected is the answer of Inspect.
type Inspected struct {
	Header
	Exists         bool
	Capacity, Free int64
	Held           int64 // permits
	HolderCount    int64
	WaiterCount    int64
	Holders        []Record
	Waiters        []Place
	Ready          []ReadyJob // of a queue
}

// Record is a holder. Times are server ms.
type Record struct {
	Token   string
	Permits int64
	End     int64
	Fence   int64
	Since   int64
	Owner   string // of a queue: see HeldJob
}

// Place is that of a waiter.
type Place struct {
	Queueing
	Alive bool // its process has lately said so
}

// ReadyJob is a job that waits for a consumer.
type ReadyJob struct {
	ID         int64 // server time of its Signal in µs, or later
	Deliveries int64
	End        int64 // server ms, 0: never
	Bytes      int64
}

// Inspect reads everything, but no more than limit holders, waiters and jobs each.
func (s Steps) Inspect(ctx context.Context, limit int) (Inspected, error) {
	r, err := s.run(ctx, scripts[s.Kind].inspect, strconv.Itoa(limit))
	i := Inspected{Header: r.header, Exists: r.int() == 1}
	if !i.Exists {
		return i, r.done(err)
	}
	i.Capacity, i.Free, i.Held, i.HolderCount, i.WaiterCount = r.int(), r.int(), r.int(), r.int(), r.int()
	r.each(func(list *reply) {
		token, record := list.text(), list.text()
		if n, owner, ok := numbers(record, 4); ok {
			i.Holders = append(i.Holders, Record{token, n[0], n[1], n[2], n[3], owner})
		}
	})
	r.each(func(list *reply) {
		entry, ticket, alive := list.text(), list.int(), list.int() == 1
		if w, ok := parseEntry(entry); ok {
			i.Waiters = append(i.Waiters, Place{Queueing{w, ticket}, alive})
		}
	})
	r.each(func(list *reply) {
		member, bytes := list.text(), list.int()
		if n, _, ok := numbers(member+" ", 3); ok {
			i.Ready = append(i.Ready, ReadyJob{n[0], n[1], n[2], bytes})
		}
	})
	return i, r.done(err)
}

// HeldJob takes the owner of a record of a queue apart.
func HeldJob(owner string) (id, deliveries int64, rest string, ok bool) {
	n, rest, ok := numbers(owner, 4)
	if !ok {
		return 0, 0, "", false
	}
	return n[0], n[1], rest, true
}

// numbers reads so many numbers, each followed by a space, and what comes after
// them; false for anything else.
func numbers(text string, count int) (n []int64, rest string, ok bool) {
	rest = text
	for range count {
		var word string
		if word, rest, ok = strings.Cut(rest, " "); !ok {
			return nil, "", false
		}
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, "", false
		}
		n = append(n, number)
	}
	return n, rest, true
}

// parseEntry reads what Waiter.Entry wrote; false for anything else.
func parseEntry(entry string) (Waiter, bool) {
	token, rest, _ := strings.Cut(entry, " ")
	n, rest, ok := numbers(rest, 2)
	_, owner, named := strings.Cut(rest, " ")
	if !ok || !named {
		return Waiter{}, false
	}
	return Waiter{Token: token, Permits: int(n[0]), Lease: time.Duration(n[1]) * time.Millisecond, Owner: owner}, true
}

package protocol

import (
	"slices"
	"strings"
)

// model is what the steps of a semaphore are meant to do, in a few lines: no keys, no
// short cuts, no lives, no mending. Times are server ms.
type model struct {
	now      int64
	capacity int // 0: it does not exist
	holders  map[string]*modelHolder
	queue    []modelWaiter    // in the order of tickets
	alive    map[string]int64 // process → until
	released map[string]bool  // the last releases
	names                     // of resizes, deletes, and tokens that held while a copy of their acquire might come
	late     int64            // until when it might
	lapsed   map[string]bool  // tokens whose lease has ended
	inboxes  map[string][]string
}

type modelHolder struct {
	n    int
	ends int64
}

type modelWaiter struct {
	token   string
	n       int
	process string
}

func newModel(now int64) *model {
	m := &model{now: now}
	m.flush()
	return m
}

// names are those of calls, and when they were noted.
type names map[string]int64

func (n names) note(name string, now int64) {
	n[name] = now
	for old, at := range n {
		if at <= now-10_000 {
			delete(n, old)
		}
	}
}

func (n names) has(name string) bool { _, ok := n[name]; return ok }

// ended notes that the hold of a token has ended.
func (m *model) ended(token string) {
	delete(m.holders, token)
	if m.now <= m.late {
		m.note(token, m.now)
	}
}

// flush forgets everything.
func (m *model) flush() {
	m.capacity, m.queue, m.late = 0, nil, 0
	m.holders, m.alive = make(map[string]*modelHolder), make(map[string]int64)
	m.released, m.names, m.lapsed = make(map[string]bool), make(names), make(map[string]bool)
	m.inboxes = make(map[string][]string)
}

func (m *model) held() (sum int) {
	for _, h := range m.holders {
		sum += h.n
	}
	return sum
}

func (m *model) free() int { return max(m.capacity-m.held(), 0) }

func (m *model) exists() bool { return m.capacity > 0 || len(m.holders)+len(m.queue) > 0 }

func (m *model) queued(token string) int {
	return slices.IndexFunc(m.queue, func(w modelWaiter) bool { return w.token == token })
}

// reclaim takes back ended leases; all steps may do so first.
func (m *model) reclaim() (n int) {
	for token, h := range m.holders {
		if h.ends <= m.now {
			m.ended(token)
			m.lapsed[token] = true
			n++
		}
	}
	return n
}

// step is the course of one: it answers the grants for the caller's process.
func (m *model) step(process string, capacity int, do func()) (granted []string) {
	if m.capacity == 0 {
		m.capacity = capacity
		if len(m.names) > 0 {
			m.late = m.now + 10_000
		}
	}
	m.reclaim()
	do()
	for len(m.queue) > 0 {
		head := m.queue[0]
		switch {
		case head.n > m.capacity || !m.lives(head.process, process) || m.holders[head.token] != nil:
		case m.held()+head.n > m.capacity:
			return granted
		default:
			m.holders[head.token] = &modelHolder{head.n, m.now + ClaimWindow.Milliseconds()}
			if head.process == process {
				granted = append(granted, head.token)
			} else {
				m.inboxes[head.process] = append(m.inboxes[head.process], head.token)
			}
		}
		m.queue = m.queue[1:]
	}
	return granted
}

func (m *model) lives(process, self string) bool {
	till, known := m.alive[process]
	if !known && process != self {
		m.mark(process) // the benefit of the doubt
		return true
	}
	return process == self || till > m.now
}

func (m *model) mark(process string) { m.alive[process] = m.now + ClaimWindow.Milliseconds() }

// void says whether a call comes too late.
func (m *model) void(call Call) bool { return call.VoidAfter > 0 && m.now > call.VoidAfter }

// lateWith is until when copies of a call may come.
func lateWith(late, now int64, call Call) int64 {
	switch {
	case !call.Repeated:
		return late
	case call.VoidAfter > 0:
		return max(late, call.VoidAfter)
	default:
		return max(late, now+4000)
	}
}

func (m *model) acquire(w modelWaiter, queue bool, call Call, lease int64, capacity int) (o Outcome, granted []string) {
	late := lateWith(m.late, m.now, call)
	if m.void(call) || (m.now <= late || m.capacity == 0) && m.has(w.token) {
		return Void, nil
	}
	m.late = late
	before := m.step(w.process, capacity, func() {}) // those who wait come first
	if m.holders[w.token] == nil && m.now <= m.late && m.has(w.token) {
		return Void, before
	}
	granted = m.step(w.process, capacity, func() {
		switch {
		case m.holders[w.token] != nil:
			o = Granted
		case m.queued(w.token) >= 0:
			m.mark(w.process)
			o = Queued
		case w.n > m.capacity:
			o = Exceeds
		case len(m.queue) == 0 && m.held()+w.n <= m.capacity:
			m.holders[w.token] = &modelHolder{w.n, m.now + lease}
			o = Granted
		case queue:
			m.queue = append(m.queue, w)
			m.mark(w.process)
			o = Queued
		}
	})
	if call.Repeated && (o == NotAvailable || o == Exceeds) {
		m.note(w.token, m.now)
	}
	return o, append(before, granted...)
}

func (m *model) release(token, call, process string, capacity int) (held bool, granted []string) {
	h := m.holders[token]
	if h == nil || h.ends <= m.now {
		return m.released[token+" "+call], nil
	}
	granted = m.step(process, capacity, func() { m.ended(token) })
	m.released[token+" "+call] = true
	return true, granted
}

// renew answers the ends of the leases.
func (m *model) renew(tokens []string, lease int64) []int64 {
	ends := make([]int64, len(tokens))
	for i, token := range tokens {
		if h := m.holders[token]; h != nil && h.ends > m.now {
			h.ends = max(h.ends, m.now+lease)
			ends[i] = h.ends
		}
	}
	return ends
}

func (m *model) leave(tokens []string) {
	for _, token := range tokens {
		if at := m.queued(token); at >= 0 {
			m.queue = slices.Delete(m.queue, at, at+1)
		}
		m.ended(token)
	}
}

// requeue puts a waiter back to its place; tickets tells those of all.
func (m *model) requeue(w modelWaiter, tickets map[string]int64) {
	if m.holders[w.token] != nil || m.queued(w.token) >= 0 {
		return
	}
	m.queue = inPlace(m.queue, w, tickets)
}

// inPlace adds a waiter to a queue by its ticket.
func inPlace(queue []modelWaiter, w modelWaiter, tickets map[string]int64) []modelWaiter {
	queue = append(queue, w)
	slices.SortStableFunc(queue, func(a, b modelWaiter) int {
		if d := tickets[a.token] - tickets[b.token]; d != 0 {
			return int(d)
		}
		return strings.Compare(a.token, b.token)
	})
	return queue
}

func (m *model) resize(by int, add bool, call Call, process string, capacity int) (o Outcome, granted []string) {
	if m.void(call) {
		return Void, nil
	}
	o = Granted
	granted = m.step(process, capacity, func() {
		wanted := by
		if add {
			wanted += m.capacity
		}
		switch {
		case m.has(call.Name):
		case wanted < 1 || wanted > 1_000_000:
			o = NotAvailable
		default:
			m.capacity = wanted
		}
	})
	if o == Granted && !m.has(call.Name) {
		m.note(call.Name, m.now)
	}
	return o, granted
}

func (m *model) remove(call Call) Outcome {
	if m.void(call) {
		return Void
	}
	if m.has(call.Name) {
		return Granted
	}
	for token := range m.holders {
		if m.now <= m.late {
			m.note(token, m.now)
		}
	}
	anybody := false
	for process, till := range m.alive {
		anybody = anybody || till > m.now
		m.inboxes[process] = nil
	}
	m.capacity, m.late = 0, 0
	clear(m.holders)
	clear(m.released)
	if !anybody {
		m.queue = nil
		clear(m.alive)
	}
	m.note(call.Name, m.now)
	return Granted
}

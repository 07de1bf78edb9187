package protocol

import (
	"slices"
	"strings"
)

// modelLine is what the models of both kinds have in common: who waits, who lives, and
// which calls were taken. Times are server ms.
type modelLine struct {
	now      int64
	queue    []modelWaiter    // in the order of tickets
	alive    map[string]int64 // process → until
	released map[string]bool  // the last releases
	names                     // of calls, and of tokens that held while a copy of their acquire might come
	late     int64            // until when it might
	inboxes  map[string][]string
}

type modelWaiter struct {
	token   string
	n       int
	process string
}

func newModelLine(now int64) modelLine {
	return modelLine{
		now: now, alive: make(map[string]int64), released: make(map[string]bool), names: make(names),
		inboxes: make(map[string][]string),
	}
}

// names are those of calls, and until when they are kept.
type names map[string]int64

func (n names) note(name string, till, now int64) {
	n[name] = max(till, now+10_000)
	for old, till := range n {
		if till <= now {
			delete(n, old)
		}
	}
}

func (n names) has(name string) bool { _, ok := n[name]; return ok }

func (m *modelLine) queued(token string) int {
	return slices.IndexFunc(m.queue, func(w modelWaiter) bool { return w.token == token })
}

// created notes that copies may come of what was sent before.
func (m *modelLine) created() {
	for _, till := range m.names {
		m.late = max(m.late, m.now+10_000, till)
	}
}

// over notes that the hold of a token has ended.
func (m *modelLine) over(token string) {
	if m.now <= m.late {
		m.note(token, m.late, m.now)
	}
}

func (m *modelLine) mark(process string) { m.alive[process] = m.now + ClaimWindow.Milliseconds() }

// lives says whether the process of a waiter at the head does.
func (m *modelLine) lives(process, self string) bool {
	till, known := m.alive[process]
	if !known && process != self {
		m.mark(process) // the benefit of the doubt
		return true
	}
	return process == self || till > m.now
}

// deliver puts the news of a grant where it goes.
func (m *modelLine) deliver(w modelWaiter, self string, granted []string) []string {
	if w.process == self {
		return append(granted, w.token)
	}
	m.inboxes[w.process] = append(m.inboxes[w.process], w.token)
	return granted
}

// leave takes a waiter out of the queue.
func (m *modelLine) leave(token string) {
	if at := m.queued(token); at >= 0 {
		m.queue = slices.Delete(m.queue, at, at+1)
	}
	m.over(token)
}

// void says whether a call comes too late.
func (m *modelLine) void(call Call) bool { return call.VoidAfter > 0 && m.now > call.VoidAfter }

// lateWith is until when copies of an acquire may come.
func (m *modelLine) lateWith(call Call) int64 {
	switch {
	case !call.Repeated:
		return m.late
	case call.VoidAfter > 0:
		return max(m.late, call.VoidAfter)
	default:
		return max(m.late, m.now+4000)
	}
}

// remove is the common part of a delete: the places of the living are left.
func (m *modelLine) remove(call Call, tokens []string) {
	for _, token := range tokens {
		m.over(token)
	}
	anybody := false
	for process, till := range m.alive {
		anybody = anybody || till > m.now
		m.inboxes[process] = nil
	}
	if !anybody {
		m.queue = nil
		clear(m.alive)
	}
	clear(m.released)
	m.late = 0
	m.note(call.Name, call.VoidAfter, m.now)
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

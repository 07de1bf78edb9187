package protocol

import (
	"maps"
	"slices"
)

// model is what the steps of a semaphore are meant to do, in a few lines: no keys, no
// short cuts, no lives, no mending. Times are server ms.
type model struct {
	modelLine
	capacity int // 0: it does not exist
	holders  map[string]*modelHolder
	lapsed   map[string]bool // tokens whose lease has ended
}

type modelHolder struct {
	n    int
	ends int64
}

func newModel(now int64) *model {
	return &model{modelLine: newModelLine(now), holders: make(map[string]*modelHolder), lapsed: make(map[string]bool)}
}

// ended notes that the hold of a token has ended.
func (m *model) ended(token string) {
	delete(m.holders, token)
	m.over(token)
}

func (m *model) held() (sum int) {
	for _, h := range m.holders {
		sum += h.n
	}
	return sum
}

func (m *model) free() int { return max(m.capacity-m.held(), 0) }

func (m *model) exists() bool { return m.capacity > 0 || len(m.holders)+len(m.queue) > 0 }

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
		m.created()
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
			granted = m.deliver(head, process, granted)
		}
		m.queue = m.queue[1:]
	}
	return granted
}

func (m *model) acquire(w modelWaiter, queue bool, call Call, lease int64, capacity int) (o Outcome, granted []string) {
	late := m.lateWith(call)
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
		m.note(w.token, m.late, m.now)
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
		m.modelLine.leave(token)
		delete(m.holders, token)
	}
}

// requeue puts a waiter back to its place; tickets tells those of all.
func (m *model) requeue(w modelWaiter, tickets map[string]int64) {
	if m.holders[w.token] != nil || m.queued(w.token) >= 0 {
		return
	}
	m.queue = inPlace(m.queue, w, tickets)
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
		m.note(call.Name, call.VoidAfter, m.now)
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
	m.modelLine.remove(call, slices.Collect(maps.Keys(m.holders)))
	m.capacity = 0
	clear(m.holders)
	return Granted
}

package protocol

import (
	"maps"
	"slices"
)

// queueModel is what the steps of a queue are meant to do.
type queueModel struct {
	modelLine
	exists  bool
	jobs    []*modelJob // the oldest first
	working map[string]*modelWork
	forEver bool // a job that never ends has come since there were none
}

type modelJob struct {
	content    string
	deliveries int64
	ends       int64 // 0: never
	held       bool
}

type modelWork struct {
	job    *modelJob
	ends   int64
	handed bool
	once   bool
}

func newQueueModel(now int64) *queueModel {
	return &queueModel{modelLine: newModelLine(now), working: make(map[string]*modelWork)}
}

func (m *queueModel) ready() (jobs []*modelJob) {
	for _, job := range m.jobs {
		if !job.held {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func (m *queueModel) there() bool { return m.exists || len(m.queue) > 0 }

func (m *queueModel) end(job *modelJob) {
	m.jobs = slices.DeleteFunc(m.jobs, func(j *modelJob) bool { return j == job })
}

// drop ends the work on a job: it is done, given back, or its lease has ended.
func (m *queueModel) drop(token string, done, ended bool) {
	work := m.working[token]
	if work == nil {
		return
	}
	delete(m.working, token)
	m.over(token)
	work.job.held = false
	if done || ended && work.handed && work.once || work.job.ends != 0 && work.job.ends <= m.now {
		m.end(work.job)
	}
}

func (m *queueModel) take(token string, job *modelJob, ends int64, once bool) {
	job.held = true
	m.working[token] = &modelWork{job: job, ends: ends, once: once}
}

// hand is what a consumer gets, nil if it has no job.
func (m *queueModel) hand(token string, lease int64, once bool) *modelWork {
	work := m.working[token]
	if work == nil {
		return nil
	}
	if !work.handed {
		work.handed, work.once = true, once
		work.job.deliveries++
	}
	work.ends = max(work.ends, m.now+lease)
	return work
}

// step is the course of one: it answers the grants for the caller's process.
func (m *queueModel) step(process string, do func()) (granted []string) {
	if !m.exists {
		m.created()
	}
	m.exists = true
	defer func() {
		expiring := func(job *modelJob) bool { return job.ends > 0 && !job.held }
		if !slices.ContainsFunc(m.jobs, func(job *modelJob) bool { return !expiring(job) }) {
			m.forEver = false
		}
	}()
	for _, job := range m.ready() {
		if job.ends != 0 && job.ends <= m.now {
			m.end(job)
		}
	}
	for token, work := range m.working {
		if work.ends <= m.now {
			m.drop(token, false, true)
		}
	}
	do()
	for len(m.queue) > 0 {
		head := m.queue[0]
		switch free := m.ready(); {
		case !m.lives(head.process, process) || m.working[head.token] != nil:
		case len(free) == 0:
			return granted
		default:
			m.take(head.token, free[0], m.now+ClaimWindow.Milliseconds(), false)
			granted = m.deliver(head, process, granted)
		}
		m.queue = m.queue[1:]
	}
	return granted
}

func (m *queueModel) acquire(w modelWaiter, queue, once bool, call Call, lease int64) (o Outcome, work *modelWork, granted []string) {
	late := m.lateWith(call)
	if m.void(call) || (m.now <= late || !m.exists) && m.has(w.token) {
		return Void, nil, nil
	}
	m.late = late
	granted = m.step(w.process, func() {})
	switch free := m.ready(); {
	case m.working[w.token] != nil:
		o = Granted
	case m.now <= m.late && m.has(w.token):
		return Void, nil, granted
	case m.queued(w.token) >= 0:
		m.mark(w.process)
		o = Queued
	case len(m.queue) == 0 && len(free) > 0:
		m.take(w.token, free[0], m.now+lease, once)
		o = Granted
	case queue:
		m.queue = append(m.queue, w)
		m.mark(w.process)
		o = Queued
	}
	if o == Granted {
		work = m.hand(w.token, lease, once)
	}
	if call.Repeated && o == NotAvailable {
		m.note(w.token, m.late, m.now)
	}
	return o, work, granted
}

func (m *queueModel) release(token, call, process string, done bool) (held bool, granted []string) {
	work := m.working[token]
	if work == nil || work.ends <= m.now {
		return m.released[token+" "+call], nil
	}
	granted = m.step(process, func() { m.drop(token, done, false) })
	m.released[token+" "+call] = true
	return true, granted
}

func (m *queueModel) signal(jobs []string, life int64, call Call, process string) (o Outcome, granted []string) {
	if m.void(call) {
		return Void, nil
	}
	known := m.has(call.Name)
	granted = m.step(process, func() {
		if !known {
			m.forEver = life == 0 || m.forEver && len(m.jobs) > 0
		}
		for _, content := range jobs {
			if known {
				break
			}
			job := &modelJob{content: content}
			if life > 0 {
				job.ends = m.now + life
			}
			m.jobs = append(m.jobs, job)
		}
	})
	if !known {
		m.note(call.Name, call.VoidAfter, m.now)
	}
	return Granted, granted
}

func (m *queueModel) renew(tokens []string, lease int64) []int64 {
	ends := make([]int64, len(tokens))
	for i, token := range tokens {
		if work := m.working[token]; work != nil {
			work.ends = max(work.ends, m.now+lease)
			ends[i] = work.ends
		}
	}
	return ends
}

func (m *queueModel) leave(token string) {
	m.modelLine.leave(token)
	m.drop(token, false, false)
}

func (m *queueModel) remove(call Call) Outcome {
	if m.void(call) {
		return Void
	}
	if m.has(call.Name) {
		return Granted
	}
	m.modelLine.remove(call, slices.Collect(maps.Keys(m.working)))
	m.exists, m.jobs = false, nil
	clear(m.working)
	return Granted
}

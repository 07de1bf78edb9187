package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// queueWorld is a queue and its model.
type queueWorld struct {
	*crowd
	model *queueModel
	once  map[string]bool // by token
	jobs  int
}

// Any steps, by any processes, with lost replies, copies that come late, and time
// passing, do what the model does.
func TestProperty_QueueDoesWhatItsModelDoes(t *testing.T) {
	t.Parallel()
	checkProperty(t, Queue, func(_ *rapid.T, c *crowd) map[string]func(*rapid.T) {
		return (&queueWorld{crowd: c, model: newQueueModel(c.now), once: make(map[string]bool)}).actions()
	})
}

func (w *queueWorld) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         w.compare,
		"signal":   w.signals,
		"signal2":  w.signals,
		"signal3":  w.signals,
		"acquire":  w.acquires,
		"acquire2": w.acquires,
		"acquire3": w.acquires,
		"again":    w.acquiresAgain,
		"fetch":    w.fetches,
		"fetch2":   w.fetches,
		"finish":   w.finishes,
		"finish2":  w.finishes,
		"renew":    w.renews,
		"leave":    w.leaves,
		"tend":     w.tends,
		"read":     w.reads,
		"status":   w.asks,
		"delete":   w.deletes,
		"flush":    w.flushes,
		"wait":     w.waits,
		"wait2":    w.waits,
	}
}

// by is the steps as a process sends them on behalf of a token.
func (w *queueWorld) by(k modelWaiter) Steps {
	steps := w.as(k.process).Steps
	steps.Once = w.once[k.token]
	return steps
}

func (w *queueWorld) heard(r *rapid.T, want []string, got []Grant) {
	var tokens []string
	for _, g := range got {
		tokens = append(tokens, g.Token)
		same(r, w.model.working[g.Token].ends, g.End, "end of lease of "+g.Token)
	}
	same(r, append([]string(nil), want...), tokens, "grants")
}

// job compares what was handed over.
func (w *queueWorld) job(r *rapid.T, want *modelWork, end int64, got Job) {
	if want == nil {
		same(r, Job{}, got, "job")
		same(r, 0, int(end), "end of lease")
		return
	}
	same(r, want.job.content, got.Content, "content")
	same(r, want.job.deliveries, got.Deliveries, "deliveries")
	same(r, want.ends, end, "end of lease")
}

func (w *queueWorld) signals(r *rapid.T) {
	var jobs []string
	for range rapid.IntRange(1, 3).Draw(r, "jobs") {
		w.jobs++
		jobs = append(jobs, fmt.Sprint("job ", w.jobs))
	}
	life := rapid.SampledFrom([]int64{0, 0, 5000, 60_000}).Draw(r, "life")
	process := w.process(r)
	for _, call := range w.call(r, w.newCall()) {
		outcome, granted := w.model.signal(jobs, life, call, process)
		h, got, ready, err := w.as(process).Signal(r.Context(), call, msDuration(life), jobs)
		require.NoError(r, err)
		same(r, outcome, got, "outcome")
		w.heard(r, granted, h.Grants)
		if outcome == Granted {
			same(r, len(w.model.ready()), int(ready), "ready")
		}
	}
}

func (w *queueWorld) acquires(r *rapid.T) {
	k := modelWaiter{fmt.Sprint("t", len(w.tokens)), 1, w.process(r)}
	w.tokens = append(w.tokens, k)
	w.once[k.token] = rapid.Bool().Draw(r, "at most once")
	w.sendAcquire(r, k)
}

func (w *queueWorld) acquiresAgain(r *rapid.T) { w.sendAcquire(r, w.token(r)) }

func (w *queueWorld) sendAcquire(r *rapid.T, k modelWaiter) {
	queue := rapid.IntRange(0, 3).Draw(r, "queue") > 0
	for _, call := range w.call(r, k.token) {
		waited := w.model.queued(k.token) >= 0
		outcome, work, granted := w.model.acquire(k, queue, w.once[k.token], call, propertyLease)
		a, err := w.by(k).Acquire(r.Context(), waiterOf(k), queue, call.VoidAfter, call.Repeated)
		require.NoError(r, err)
		same(r, outcome, a.Outcome, "outcome")
		switch outcome {
		case Queued:
			if waited {
				same(r, w.tickets[k.token], a.Ticket, "ticket")
			}
			w.tickets[k.token] = a.Ticket
			same(r, w.model.queued(k.token), int(a.Places), "places")
		case Granted:
			w.job(r, work, a.End, a.Job)
			granted = slices.DeleteFunc(granted, func(token string) bool { return token == k.token })
			a.Grants = slices.DeleteFunc(a.Grants, func(g Grant) bool { return g.Token == k.token })
		}
		w.heard(r, granted, a.Grants)
	}
}

func (w *queueWorld) fetches(r *rapid.T) {
	k := w.token(r)
	lease := rapid.SampledFrom([]int64{1000, propertyLease}).Draw(r, "lease")
	for range rapid.IntRange(1, 2).Draw(r, "times") {
		var work *modelWork
		var granted []string
		if w.model.there() {
			granted = w.model.step(k.process, func() { work = w.model.hand(k.token, lease, w.once[k.token]) })
		}
		h, end, job, err := w.by(k).Fetch(r.Context(), k.token, msDuration(lease))
		require.NoError(r, err)
		w.job(r, work, end, job)
		w.heard(r, granted, h.Grants)
	}
}

func (w *queueWorld) finishes(r *rapid.T) {
	k := w.token(r)
	call, process := w.newCall(), w.process(r)
	done := rapid.Bool().Draw(r, "done")
	for range rapid.IntRange(1, 2).Draw(r, "times") {
		held, granted := w.model.release(k.token, call, process, done)
		finish := w.as(process).Release
		if done {
			finish = w.as(process).Finish
		}
		h, got, ready, err := finish(r.Context(), k.token, call)
		require.NoError(r, err)
		same(r, held, got, "held")
		same(r, len(w.model.ready()), int(ready), "ready")
		w.heard(r, granted, h.Grants)
	}
}

func (w *queueWorld) renews(r *rapid.T) {
	tokens := []string{w.token(r).token, w.token(r).token}
	process := w.process(r)
	ends := make([]int64, 2)
	var granted []string
	if w.model.there() {
		granted = w.model.step(process, func() { ends = w.model.renew(tokens, propertyLease) })
	}
	h, got, err := w.as(process).Renew(r.Context(), renewalsOf(tokens, propertyLease))
	require.NoError(r, err)
	same(r, ends, got, "ends")
	w.heard(r, granted, h.Grants)
}

func (w *queueWorld) leaves(r *rapid.T) {
	k := w.token(r)
	var granted []string
	if w.model.there() {
		granted = w.model.step(k.process, func() { w.model.leave(k.token) })
	}
	h, err := w.as(k.process).Leave(r.Context(), []Waiter{waiterOf(k)})
	require.NoError(r, err)
	w.heard(r, granted, h.Grants)
}

// tends by a process that waits, and looks for all of its tokens.
func (w *queueWorld) tends(r *rapid.T) {
	process := w.process(r)
	t := Tending{Waiting: true}
	var again []modelWaiter
	var sought []modelWaiter
	for _, k := range w.tokens[max(len(w.tokens)-8, 0):] {
		if k.process != process {
			continue
		}
		if w.tickets[k.token] != 0 && !w.model.has(k.token) && rapid.IntRange(0, 3).Draw(r, "queue again "+k.token) == 0 {
			again = append(again, k)
			t.Requeue = append(t.Requeue, Queueing{waiterOf(k), w.tickets[k.token]})
		} else {
			sought = append(sought, k)
			t.Look = append(t.Look, waiterOf(k))
		}
	}
	m := w.model
	granted := m.step(process, func() {
		m.mark(process)
		maps.DeleteFunc(m.alive, func(_ string, till int64) bool { return till <= m.now-600_000 })
		for _, k := range again {
			if m.working[k.token] == nil && m.queued(k.token) < 0 {
				m.queue = inPlace(m.queue, k, w.tickets)
			}
		}
	})
	found := make([]int64, len(sought))
	for i, k := range sought {
		if m.queued(k.token) >= 0 {
			found[i] = 1
		} else if m.working[k.token] != nil {
			found[i] = 1
			granted = append(granted, k.token)
		}
	}
	answer, err := w.as(process).Tend(r.Context(), t)
	require.NoError(r, err)
	same(r, found, answer.Found, "found")
	w.heard(r, granted, answer.Grants)
}

// reads the inbox of a process, or loses what was in it.
func (w *queueWorld) reads(r *rapid.T) {
	process := w.process(r)
	if _, err := redis.String(w.conn.Do("LPOP", w.Keys.Inbox(process))); err == nil {
		delete(w.model.inboxes, process)
	}
}

func (w *queueWorld) asks(r *rapid.T) {
	process := w.process(r)
	m := w.model
	var granted []string
	if m.there() {
		granted = m.step(process, func() {})
	}
	if rapid.Bool().Draw(r, "inspect") {
		i, err := w.as(process).Inspect(r.Context(), 100)
		require.NoError(r, err)
		w.heard(r, granted, i.Grants)
		same(r, m.exists, i.Exists, "exists")
		same(r, []int{len(m.ready()), len(m.working), len(m.queue)}, []int{int(i.Free), int(i.HolderCount), int(i.WaiterCount)}, "numbers")
		for at, job := range m.ready() {
			same(r, []int64{job.deliveries, job.ends, int64(len(job.content))},
				[]int64{i.Ready[at].Deliveries, i.Ready[at].End, i.Ready[at].Bytes}, "ready job")
		}
		for _, record := range i.Holders {
			_, deliveries, owner, ok := HeldJob(record.Owner)
			same(r, []any{m.working[record.Token].job.deliveries, "host/1", true}, []any{deliveries, owner, ok}, "held job")
		}
		return
	}
	h, free, _, _, err := w.as(process).Status(r.Context(), "")
	require.NoError(r, err)
	same(r, len(m.ready()), int(free), "ready")
	w.heard(r, granted, h.Grants)
}

func (w *queueWorld) deletes(r *rapid.T) {
	for _, call := range w.call(r, w.newCall()) {
		want := w.model.remove(call)
		_, got, err := w.as(w.process(r)).Delete(r.Context(), call)
		require.NoError(r, err)
		same(r, want, got, "outcome")
	}
}

func (w *queueWorld) flushes(*rapid.T) {
	w.do("FLUSHALL")
	w.pass(max(1, w.fence/1000-w.now+1))
	*w.model = *newQueueModel(w.now)
}

func (w *queueWorld) waits(r *rapid.T) {
	w.pass(someTime(r))
	w.model.now = w.now
}

// compare sees that the state is that of the model.
func (w *queueWorld) compare(r *rapid.T) {
	s, l := w.read()
	m := w.model
	require.Empty(r, s.Foreign)
	content := func(member string) string {
		id, _, _ := strings.Cut(member, " ")
		job, ok := s.Jobs[id]
		require.True(r, ok, "job %s has no content", id)
		return job
	}
	var ready, wantReady []string
	for _, member := range s.Ready {
		id, rest, _ := strings.Cut(member, " ")
		ready = append(ready, content(id)+" "+rest)
	}
	expiries := 0
	for _, job := range m.ready() {
		wantReady = append(wantReady, fmt.Sprint(job.content, " ", job.deliveries, " ", job.ends))
		if job.ends > 0 {
			expiries++
		}
	}
	same(r, wantReady, ready, "ready")
	for _, work := range m.working {
		if work.handed && work.once {
			expiries++
		}
	}
	same(r, expiries, len(s.Expiries), "expiries")
	same(r, len(m.jobs), len(s.Jobs), "jobs")
	same(r, len(m.working), len(s.Locked), "working")
	same(r, len(s.Locked), len(s.Leases), "leases")
	for token, work := range m.working {
		record := s.Locked[token]
		id, deliveries, _, ok := HeldJob(record.Owner)
		require.True(r, ok)
		same(r, []any{work.ends, work.ends, work.job.deliveries, work.job.content},
			[]any{record.End, s.Leases[token], deliveries, content(itoa(id))}, "work of "+token)
		w.fence = max(w.fence, record.Fence)
	}
	var queue, wantQueue []string
	for _, p := range s.Queue {
		k, _, _ := p.waiter()
		queue = append(queue, k.Token)
	}
	for _, k := range m.queue {
		wantQueue = append(wantQueue, k.token)
	}
	same(r, wantQueue, queue, "queue")
	if len(m.jobs) == 0 {
		require.NotContains(r, s.Name, "lasting")
	}
	w.lives(r, l)
}

// lives sees that jobs are kept for ever if one of them never ends, and nothing else is.
func (w *queueWorld) lives(r *rapid.T, l life) {
	forEver := len(w.model.jobs) > 0 && w.model.forEver
	for key, ttl := range l.ttl {
		suffix := strings.TrimPrefix(key, w.Keys.Name())
		switch suffix {
		case ":queue", ":clients", ":released":
			require.Positive(r, ttl, suffix)
		case "", ":version", ":available", ":locked", ":leases", ":jobs", ":expiries":
			if forEver {
				same(r, int64(-1), ttl, "life of "+suffix)
			} else {
				require.Positive(r, ttl, "life of "+suffix)
			}
		}
	}
}

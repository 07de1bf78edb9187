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

// world is a semaphore and its model.
type world struct {
	*crowd
	model *model
}

// Any steps, by any processes, with lost replies, copies that come late, and time
// passing, do what the model does.
func TestProperty_SemaphoreDoesWhatItsModelDoes(t *testing.T) {
	t.Parallel()
	checkProperty(t, Semaphore, func(r *rapid.T, c *crowd) map[string]func(*rapid.T) {
		c.Capacity = rapid.IntRange(1, 4).Draw(r, "capacity")
		return (&world{c, newModel(c.now)}).actions()
	})
}

func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":         w.compare,
		"acquire":  w.acquires,
		"acquire2": w.acquires,
		"acquire3": w.acquires,
		"again":    w.acquiresAgain,
		"release":  w.releases,
		"release2": w.releases,
		"renew":    w.renews,
		"leave":    w.leaves,
		"tend":     w.tends,
		"tend2":    w.tends,
		"read":     w.reads,
		"status":   w.asks,
		"resize":   w.resizes,
		"delete":   w.deletes,
		"flush":    w.flushes,
		"wait":     w.waits,
		"wait2":    w.waits,
	}
}

// heard compares the grants of an answer, whose fences must increase.
func (w *world) heard(r *rapid.T, want []string, got []Grant) {
	var tokens []string
	for _, g := range got {
		tokens = append(tokens, g.Token)
		same(r, w.model.holders[g.Token].ends, g.End, "end of lease of "+g.Token)
	}
	same(r, want, tokens, "grants")
}

func (w *world) acquires(r *rapid.T) {
	k := modelWaiter{fmt.Sprint("t", len(w.tokens)), rapid.IntRange(1, 5).Draw(r, "permits"), w.process(r)}
	w.tokens = append(w.tokens, k)
	w.sendAcquire(r, k)
}

func (w *world) acquiresAgain(r *rapid.T) {
	k := w.token(r)
	if w.model.lapsed[k.token] {
		r.Skip("Redis may have taken it back later, and not have noted it")
	}
	w.sendAcquire(r, k)
}

func (w *world) sendAcquire(r *rapid.T, k modelWaiter) {
	queue := rapid.IntRange(0, 3).Draw(r, "queue") > 0
	for _, call := range w.call(r, k.token) {
		waited := w.model.queued(k.token) >= 0
		outcome, granted := w.model.acquire(k, queue, call, propertyLease, w.Capacity)
		a, err := w.as(k.process).Acquire(r.Context(), waiterOf(k), queue, call.VoidAfter, call.Repeated)
		require.NoError(r, err)
		same(r, outcome, a.Outcome, "outcome")
		w.heard(r, granted, a.Grants)
		switch outcome {
		case Queued:
			if waited {
				same(r, w.tickets[k.token], a.Ticket, "ticket")
			}
			w.tickets[k.token] = a.Ticket
			same(r, w.model.queued(k.token), int(a.Places), "places")
		case Granted:
			same(r, w.model.holders[k.token].ends, a.End, "end of lease")
		}
		if outcome != Void {
			same(r, w.model.capacity, int(a.Capacity), "capacity")
		}
	}
}

func (w *world) releases(r *rapid.T) {
	k := w.token(r)
	call, process := w.newCall(), w.process(r)
	for range rapid.IntRange(1, 2).Draw(r, "times") {
		held, granted := w.model.release(k.token, call, process, w.Capacity)
		h, got, _, err := w.as(process).Release(r.Context(), k.token, call)
		require.NoError(r, err)
		same(r, held, got, "held")
		w.heard(r, granted, h.Grants)
	}
}

func (w *world) renews(r *rapid.T) {
	tokens := []string{w.token(r).token, w.token(r).token}
	process := w.process(r)
	lease := rapid.SampledFrom([]int64{1000, propertyLease}).Draw(r, "lease")
	var ends []int64
	var granted []string
	if w.model.exists() {
		granted = w.model.step(process, w.Capacity, func() { ends = w.model.renew(tokens, lease) })
	} else {
		ends = make([]int64, 2)
	}
	h, got, err := w.as(process).Renew(r.Context(), renewalsOf(tokens, lease))
	require.NoError(r, err)
	same(r, ends, got, "ends")
	w.heard(r, granted, h.Grants)
}

func (w *world) leaves(r *rapid.T) {
	k := w.token(r)
	for range rapid.IntRange(1, 2).Draw(r, "times") {
		var granted []string
		if w.model.exists() {
			granted = w.model.step(k.process, w.Capacity, func() { w.model.leave([]string{k.token}) })
		}
		h, err := w.as(k.process).Leave(r.Context(), []Waiter{waiterOf(k)})
		require.NoError(r, err)
		w.heard(r, granted, h.Grants)
	}
}

// tends by a process for all that it may say.
func (w *world) tends(r *rapid.T) {
	process := w.process(r)
	t := Tending{Waiting: rapid.IntRange(0, 3).Draw(r, "waiting") > 0}
	var renewals []string
	var leavers, again, sought []modelWaiter
	for _, k := range w.tokens[max(len(w.tokens)-8, 0):] {
		if k.process != process {
			continue
		}
		switch what := rapid.IntRange(0, 5).Draw(r, "say of "+k.token); {
		case what == 0:
			renewals = append(renewals, k.token)
		case what == 1:
			leavers = append(leavers, k)
			t.Leave = append(t.Leave, waiterOf(k))
		case what == 2 && t.Waiting && w.tickets[k.token] != 0 && !w.model.has(k.token):
			again = append(again, k)
			t.Requeue = append(t.Requeue, Queueing{waiterOf(k), w.tickets[k.token]})
		case what > 3 && t.Waiting:
			sought = append(sought, k)
			t.Look = append(t.Look, waiterOf(k))
		}
	}
	t.Renew = renewalsOf(renewals, propertyLease)
	m := w.model
	ends, found := make([]int64, len(renewals)), make([]int64, len(sought))
	var granted []string
	if t.Waiting || m.exists() {
		granted = m.step(process, w.Capacity, func() {
			if t.Waiting {
				m.mark(process)
				maps.DeleteFunc(m.alive, func(_ string, till int64) bool { return till <= m.now-600_000 })
			}
			ends = m.renew(renewals, propertyLease)
			for _, k := range leavers {
				m.leave([]string{k.token})
			}
			for _, k := range again {
				m.requeue(k, w.tickets)
				m.mark(process)
			}
		})
		for i, k := range sought {
			if m.queued(k.token) >= 0 {
				found[i] = 1
			} else if m.holders[k.token] != nil {
				found[i] = 1
				granted = append(granted, k.token)
			}
		}
	}
	answer, err := w.as(process).Tend(r.Context(), t)
	require.NoError(r, err)
	same(r, ends, answer.Ends, "ends")
	if m.exists() {
		same(r, found, answer.Found, "found")
	}
	same(r, m.capacity, int(answer.Capacity), "capacity")
	w.heard(r, granted, answer.Grants)
}

// reads the inbox of a process, or loses what was in it.
func (w *world) reads(r *rapid.T) {
	process := w.process(r)
	message, err := redis.String(w.conn.Do("LPOP", w.Keys.Inbox(process)))
	if err != nil {
		message = ""
	}
	for _, g := range ParseGrants(message) {
		if !slices.Contains(w.model.inboxes[process], g.Token) {
			r.Fatalf("%s is news to %s", g.Token, process)
		}
	}
	delete(w.model.inboxes, process)
}

func (w *world) asks(r *rapid.T) {
	process := w.process(r)
	m := w.model
	capacity, free := w.Capacity, w.Capacity
	var granted []string
	if m.exists() {
		granted = m.step(process, w.Capacity, func() {})
		capacity, free = m.capacity, m.free()
	}
	switch rapid.IntRange(0, 2).Draw(r, "how") {
	case 0:
		token := ""
		if len(w.tokens) > 0 {
			token = w.token(r).token
		}
		h, gotFree, gotCapacity, held, err := w.as(process).Status(r.Context(), token)
		require.NoError(r, err)
		same(r, []int{capacity, free}, []int{int(gotCapacity), int(gotFree)}, "capacity and free")
		same(r, m.holders[token] != nil, held, "held")
		w.heard(r, granted, h.Grants)
	case 1:
		h, _, err := w.as(process).Reclaim(r.Context())
		require.NoError(r, err)
		w.heard(r, granted, h.Grants)
	case 2:
		i, err := w.as(process).Inspect(r.Context(), 100)
		require.NoError(r, err)
		w.heard(r, granted, i.Grants)
		same(r, m.exists(), i.Exists, "exists")
		if i.Exists {
			same(r, []int{capacity, free, m.held(), len(m.holders), len(m.queue)},
				[]int{int(i.Capacity), int(i.Free), int(i.Held), int(i.HolderCount), int(i.WaiterCount)}, "numbers")
		}
		same(r, len(m.holders), len(i.Holders), "holders")
		for at, place := range i.Waiters {
			same(r, m.queue[at].token, place.Token, "waiter")
			same(r, m.alive[m.queue[at].process] > m.now, place.Alive, "alive")
		}
	}
}

func (w *world) resizes(r *rapid.T) {
	by := rapid.IntRange(-1, 6).Draw(r, "by")
	add := rapid.Bool().Draw(r, "add")
	process := w.process(r)
	for _, call := range w.call(r, w.newCall()) {
		outcome, granted := w.model.resize(by, add, call, process, w.Capacity)
		h, got, capacity, err := w.as(process).Resize(r.Context(), call, by, add)
		require.NoError(r, err)
		same(r, outcome, got, "outcome")
		w.heard(r, granted, h.Grants)
		if got != Void {
			same(r, w.model.capacity, int(capacity), "capacity")
		}
	}
}

func (w *world) deletes(r *rapid.T) {
	for _, call := range w.call(r, w.newCall()) {
		want := w.model.remove(call)
		_, got, err := w.as(w.process(r)).Delete(r.Context(), call)
		require.NoError(r, err)
		same(r, want, got, "outcome")
	}
}

// flushes the server, a moment later than anything that happened before.
func (w *world) flushes(*rapid.T) {
	w.do("FLUSHALL")
	w.pass(max(1, w.fence/1000-w.now+1))
	*w.model = *newModel(w.now)
}

func (w *world) waits(r *rapid.T) {
	w.pass(someTime(r))
	w.model.now = w.now
}

// compare sees that the state is whole, and that of the model.
func (w *world) compare(r *rapid.T) {
	s, _ := w.read()
	if w.model.capacity > 0 || s.Name != nil { // else a delete has left the places
		require.Empty(r, broken(s), "state: %+v", s)
	}
	held := make(map[string]modelHolder)
	for token, record := range s.Locked {
		if record.End > w.model.now { // else it may be there still
			held[token] = modelHolder{int(record.N), record.End}
		}
		w.fence = max(w.fence, record.Fence)
	}
	want := make(map[string]modelHolder)
	sum := 0
	for token, h := range w.model.holders {
		if h.ends > w.model.now {
			want[token] = *h
			sum += h.n
		}
	}
	same(r, want, held, "holders")
	var queue, wantQueue []string
	for _, p := range s.Queue {
		k, _, _ := p.waiter()
		queue = append(queue, k.Token)
	}
	for _, k := range w.model.queue {
		wantQueue = append(wantQueue, k.token)
	}
	same(r, wantQueue, queue, "queue")
	for process, tokens := range w.model.inboxes {
		var got []string
		for _, g := range ParseGrants(strings.Join(s.Inboxes[process], "")) {
			got = append(got, g.Token)
		}
		same(r, tokens, got, "inbox of "+process)
	}
}

package protocol

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// walk is a random walk of a few processes over the steps, with lost replies,
// lost keys and dead processes. It knows what every token should have.
type walk struct {
	scene
	rand    *rand.Rand
	waiters map[string]*walker // that wait, or hold, by token
	last    int
	trail   []string // for the message of a failure
}

type walker struct {
	Waiter
	process string
	ticket  int64
	holds   bool // by an answer, or a message
	missing bool // by the answer of a tend
}

func TestWalk_ManyRandomStepsKeepEverythingWhole(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 4)
			w := &walk{
				scene:   scene{fixture: f, wants: make(map[string]int)},
				rand:    rand.New(rand.NewPCG(seed, 1)),
				waiters: make(map[string]*walker),
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(w.trail)
				}
			})
			for range 150 {
				w.step()
			}
			w.becomesWhole(nil)
		})
	}
}

// step does something, and checks what has become of everybody.
func (w *walk) step() {
	w.t.Helper()
	before := w.dump()
	if w.rand.IntN(6) == 0 && before.Name != nil {
		w.goLong()
	}
	w.pick([]func(){w.comes, w.comes, w.comes, w.returns, w.returns, w.returns, w.gives, w.tends, w.tends, w.renews, w.reads, w.reads, w.dies, w.loses})()
	after := w.dump()
	w.neverAbove()
	w.inOrder(before, after)
	for token, k := range w.waiters {
		_, locked := after.Locked[token]
		_, leased := after.Leases[token] // one of the two may be lost
		require.True(w.t, locked || leased || !k.holds, "%s holds", token)
	}
}

func (w *walk) pick(actions []func()) func() { return actions[w.rand.IntN(len(actions))] }

func (w *walk) note(format string, args ...any) {
	w.trail = append(w.trail, fmt.Sprintf(format, args...))
}

// repeats is how often a step is sent: its answer may be lost.
func (w *walk) repeats() int { return 1 + w.rand.IntN(3)/2 }

func (w *walk) process() string { return fmt.Sprintf("p%d", 1+w.rand.IntN(3)) }

// choose picks a token, "" if there is none that fits.
func (w *walk) choose(fits func(*walker) bool) string {
	var tokens []string
	for _, token := range slices.Sorted(maps.Keys(w.waiters)) {
		if fits(w.waiters[token]) {
			tokens = append(tokens, token)
		}
	}
	if len(tokens) == 0 {
		return ""
	}
	return tokens[w.rand.IntN(len(tokens))]
}

// inOrder checks that nobody was served before somebody who waited longer.
func (w *walk) inOrder(before, after state) {
	w.t.Helper()
	waits := make(map[string]bool)
	for _, p := range after.Queue {
		k, _, _ := p.waiter()
		waits[k.Token] = true
	}
	passed := ""
	for _, p := range before.Queue {
		k, _, _ := p.waiter()
		if waits[k.Token] {
			passed = k.Token
		} else if _, served := after.Locked[k.Token]; served {
			require.Empty(w.t, passed, "%s was served before", k.Token)
		}
	}
}

// heard takes note of grants.
func (w *walk) heard(grants []Grant) {
	for _, g := range grants {
		if k, ok := w.waiters[g.Token]; ok {
			k.holds = true
		}
	}
}

func (w *walk) comes() {
	w.last++
	k := &walker{Waiter: waiter(fmt.Sprintf("t%d", w.last), 1+w.rand.IntN(6)/2), process: w.process()}
	w.wants[k.Token] = k.Permits
	queue := w.rand.IntN(4) > 0
	w.note("%s comes to %s for %d, queue %v", k.Token, k.process, k.Permits, queue)
	for range w.repeats() {
		a, err := w.as(k.process).Acquire(w.t.Context(), k.Waiter, queue, 0, false)
		require.NoError(w.t, err)
		w.heard(a.Grants)
		switch a.Outcome {
		case Granted:
			k.holds = true
		case Queued:
			require.True(w.t, k.ticket == 0 || k.ticket == a.Ticket || k.holds, "the ticket of %s", k.Token)
			k.ticket = a.Ticket
		}
	}
	if k.holds || k.ticket != 0 {
		w.waiters[k.Token] = k
	}
}

// returns gives back what a token holds.
func (w *walk) returns() {
	token := w.choose(func(k *walker) bool { return k.holds })
	if token == "" {
		return
	}
	w.note("%s returns", token)
	process := w.process()
	call := w.rand.IntN(1000)
	for i := range w.repeats() {
		h, held, _, err := w.as(process).Release(w.t.Context(), token, fmt.Sprint(call))
		require.NoError(w.t, err)
		require.True(w.t, held, "%s, time %d", token, i)
		w.heard(h.Grants)
	}
	delete(w.waiters, token)
}

// gives up a place or, if it was granted meanwhile, the permits.
func (w *walk) gives() {
	token := w.choose(func(k *walker) bool { return !k.holds })
	if token == "" {
		return
	}
	w.note("%s leaves", token)
	k := w.waiters[token]
	delete(w.waiters, token)
	for range w.repeats() {
		h, err := w.as(k.process).Leave(w.t.Context(), []Waiter{k.Waiter})
		require.NoError(w.t, err)
		w.heard(h.Grants)
	}
	w.check()
}

// tends says that a process lives, and learns of its waiters.
func (w *walk) tends() {
	process := w.process()
	w.note("%s tends", process)
	var tending Tending
	for _, token := range slices.Sorted(maps.Keys(w.waiters)) {
		k := w.waiters[token]
		switch {
		case k.process != process || k.holds:
		case k.missing:
			tending.Requeue = append(tending.Requeue, Queueing{k.Waiter, k.ticket})
		default:
			tending.Look = append(tending.Look, k.Waiter)
		}
	}
	tending.Waiting = len(tending.Requeue)+len(tending.Look) > 0
	for range w.repeats() {
		answer, err := w.as(process).Tend(w.t.Context(), tending)
		require.NoError(w.t, err)
		for _, q := range tending.Requeue {
			w.waiters[q.Token].missing = false
		}
		for i, found := range answer.Found {
			w.waiters[tending.Look[i].Token].missing = found == 0
		}
		w.heard(answer.Grants)
	}
	w.check()
}

func (w *walk) renews() {
	token := w.choose(func(k *walker) bool { return k.holds })
	if token == "" {
		return
	}
	w.note("%s is renewed", token)
	h, ends, err := w.as(w.process()).Renew(w.t.Context(), []Renewal{{token, 2 * testLease}})
	require.NoError(w.t, err)
	require.NotZero(w.t, ends[0])
	w.heard(h.Grants)
	w.check()
}

// reads a message from an inbox; now and then it gets lost.
func (w *walk) reads() {
	process := w.process()
	message, err := redis.String(w.conn.Do("LPOP", w.Keys.Inbox(process)))
	if err != nil || w.rand.IntN(5) == 0 {
		return
	}
	w.note("%s reads %q", process, message)
	w.heard(ParseGrants(message))
}

// dies is a process that fails to say that it lives.
func (w *walk) dies() {
	process := w.process()
	w.note("%s is dead for a while", process)
	w.kill(process)
}

// loses a key.
func (w *walk) loses() {
	suffix := suffixes[w.rand.IntN(len(suffixes))]
	if suffix == "" {
		return // it takes the sequence number along: see TestMend
	}
	w.note("%q is lost", suffix)
	w.do("DEL", w.key(suffix))
	if suffix != "locked" && suffix != "leases" && w.rand.IntN(2) == 0 {
		return // with the next
	}
	h, _, _, _, err := w.as(w.process()).Status(w.t.Context(), "")
	require.NoError(w.t, err)
	w.heard(h.Grants)
	w.check()
}

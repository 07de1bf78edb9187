package protocol

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scene is a semaphore in some state, of which the test knows the truth
// whatever becomes of the keys.
type scene struct {
	*fixture
	wants map[string]int // permits of every token that holds or waits
	ended map[string]bool
}

// scenes are states in which keys get lost.
var scenes = map[string]func(f *fixture) scene{
	"free": func(f *fixture) scene {
		f.Capacity = 3
		f.acquire("x", 2)
		f.release("x", "1")
		return scene{f, map[string]int{}, nil}
	},
	"mutex": func(f *fixture) scene {
		f.Capacity = 1
		f.acquire("b", 1)
		return scene{f, map[string]int{"b": 1}, nil}
	},
	"held": func(f *fixture) scene {
		f.Capacity = 3
		f.acquire("a", 1)
		f.acquire("b", 1)
		return scene{f, map[string]int{"a": 1, "b": 1}, nil}
	},
	"waiting": func(f *fixture) scene {
		f.Capacity = 2
		f.acquire("a", 1)
		f.acquire("b", 1)
		f.queue("c", 1)
		f.as("p2").queue("d", 1)
		return scene{f, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, nil}
	},
	"weighted": func(f *fixture) scene {
		f.Capacity = 10
		f.acquire("a", 3)
		f.acquire("b", 2)
		f.acquire("e", 4)
		f.queue("c", 4)
		f.as("p2").queue("d", 1)
		return scene{f, map[string]int{"a": 3, "b": 2, "e": 4, "c": 4, "d": 1}, nil}
	},
	"ended": func(f *fixture) scene {
		f.Capacity = 3
		f.acquire("a", 1)
		f.acquire("b", 1)
		f.acquire("e", 1)
		f.as("p2").queue("d", 2)
		f.endLease("e")
		return scene{f, map[string]int{"a": 1, "b": 1, "d": 2}, map[string]bool{"e": true}}
	},
}

// oneStep is every step, once: each may be the first that finds a key missing.
var oneStep = map[string]func(s scene) error{
	"acquire": func(s scene) error {
		s.wants["new"] = 1
		_, err := s.Acquire(context.Background(), waiter("new", 1), true, 0, false)
		return err
	},
	"try": func(s scene) error {
		s.wants["new"] = 1
		_, err := s.Acquire(context.Background(), waiter("new", 1), false, 0, false)
		return err
	},
	"release": func(s scene) error {
		_, held, _, err := s.Release(context.Background(), "b", "call")
		if held {
			delete(s.wants, "b")
		}
		return err
	},
	"renew": func(s scene) error {
		_, _, err := s.Renew(context.Background(), []Renewal{{"a", testLease}, {"b", testLease}})
		return err
	},
	"tend": func(s scene) error {
		_, err := s.Tend(context.Background(), Tending{Waiting: true, Look: []Waiter{waiter("c", s.wants["c"])}})
		return err
	},
	"leave": func(s scene) error {
		_, err := s.Leave(context.Background(), []Waiter{waiter("c", s.wants["c"])})
		delete(s.wants, "c")
		return err
	},
	"status": func(s scene) error {
		_, _, _, _, err := s.Status(context.Background(), "a")
		return err
	},
	"reclaim": func(s scene) error {
		_, _, err := s.Reclaim(context.Background())
		return err
	},
	"inspect": func(s scene) error {
		_, err := s.Inspect(context.Background(), 10)
		return err
	},
	"resize": func(s scene) error {
		_, _, capacity, err := s.Resize(context.Background(), Call{Name: "call"}, s.Capacity+1, false)
		if err == nil {
			s.Capacity = int(capacity)
		}
		return err
	},
}

var suffixes = []string{"", "version", "available", "locked", "leases", "queue", "clients", "released", "calls"}

func TestMend_AfterAnyKeyIsLost(t *testing.T) {
	for _, suffix := range suffixes {
		t.Run(suffix, func(t *testing.T) { everyScene(t, oneStep, suffix) })
	}
}

func TestMend_AfterAnyTwoKeysAreLost(t *testing.T) {
	steps := map[string]func(scene) error{
		"acquire": oneStep["acquire"], "release": oneStep["release"], "tend": oneStep["tend"],
	}
	for i, first := range suffixes {
		for _, second := range suffixes[i+1:] {
			t.Run(first+"+"+second, func(t *testing.T) { everyScene(t, steps, first, second) })
		}
	}
}

// everyScene deletes keys in every state before every one of the steps.
func everyScene(t *testing.T, steps map[string]func(scene) error, lost ...string) {
	t.Parallel()
	for state, build := range scenes {
		for step, run := range steps {
			t.Run(state+" "+step, func(t *testing.T) {
				s := build(newFixture(t, 0))
				held := s.heldByTruth()
				for _, suffix := range lost {
					s.do("DEL", s.key(suffix))
				}
				if slices.Contains(lost, "locked") && slices.Contains(lost, "leases") {
					held = nil // nobody can know
					for _, token := range []string{"a", "b", "e"} {
						delete(s.wants, token)
					}
				}
				require.NoError(t, run(s))
				s.neverAbove()
				s.becomesWhole(held)
			})
		}
	}
}

// heldByTruth are the tokens that hold, and whose lease has not ended.
func (s scene) heldByTruth() []string {
	var tokens []string
	for token := range s.dump().Locked {
		if !s.ended[token] {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// neverAbove fails the test if more permits are in use, or free to be taken,
// than there are: those of a holder count as many as it was granted, whatever
// is recorded.
func (s scene) neverAbove() {
	s.t.Helper()
	now := s.dump()
	var free, sum int64
	if len(broken(now)) == 0 { // else nothing is granted before it is mended
		free = int64(len(now.Available))
	}
	for token := range now.Locked {
		if !s.ended[token] {
			sum += int64(s.wants[token])
		}
	}
	require.LessOrEqual(s.t, sum+free, int64(s.Capacity), "%+v", now)
}

// becomesWhole goes on until nobody holds or waits. All who held before must
// hold to the end, never is there too much, and at last all is there.
func (s scene) becomesWhole(held []string) {
	s.t.Helper()
	s.as("p9").tend(Tending{Waiting: true})
	s.neverAbove()
	for _, token := range held {
		if _, ok := s.wants[token]; ok {
			_, _, ok = s.status(token)
			require.True(s.t, ok, "%s holds", token)
			require.True(s.t, s.release(token, "last").held, "%s holds", token)
			delete(s.wants, token)
			s.neverAbove()
		}
	}
	for len(s.dump().Queue)+len(s.dump().Locked) > 0 {
		s.status("") // drops what can't be read from the head of the queue
		for token := range s.dump().Locked {
			s.release(token, "last")
			s.neverAbove()
		}
		for _, p := range s.dump().Queue {
			if w, process, ok := p.waiter(); ok {
				s.as(process).leave(w)
			}
		}
	}
	free, capacity, _ := s.status("")
	assert.Equal(s.t, []int64{int64(s.Capacity), int64(s.Capacity)}, []int64{free, capacity})
}

// Each of a lost record's holders counts for as many as it may have had.
func TestMend_CountsHoldersWithoutARecord(t *testing.T) {
	for name, c := range map[string]struct {
		holders map[string]int // of a capacity of 10
		lose    func(f *fixture)
		free    int64
	}{
		"one each":        {map[string]int{"a": 1, "b": 1, "c": 1}, func(f *fixture) { f.do("DEL", f.key("locked")) }, 7},
		"one of several":  {map[string]int{"a": 4}, func(f *fixture) { f.do("DEL", f.key("locked")) }, 6},
		"it is not known": {map[string]int{"a": 3, "b": 1}, func(f *fixture) { f.do("DEL", f.key("locked")) }, 4},
		"one is known":    {map[string]int{"a": 1, "b": 3, "c": 2}, func(f *fixture) { f.do("HDEL", f.key("locked"), "b") }, 4},
		"no name":         {map[string]int{"a": 1, "b": 1}, func(f *fixture) { f.do("DEL", f.key("locked"), f.key("")) }, 8},
		"no name nor list": {map[string]int{"a": 1, "b": 1}, func(f *fixture) {
			f.do("DEL", f.key("locked"), f.key(""), f.key("available"))
		}, 0},
		"a foreign lease too": {map[string]int{"a": 1, "b": 1}, func(f *fixture) {
			f.do("DEL", f.key("locked"))
			f.do("ZADD", f.key("leases"), 4_000_000_000_000, "x")
		}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 10)
			for token, n := range c.holders {
				f.acquire(token, n)
			}
			c.lose(f)
			free, capacity, _ := f.status("")
			assert.Equal(t, []int64{c.free, 10}, []int64{free, capacity})
			for token := range c.holders {
				assert.True(t, f.release(token, "1").held, token)
			}
		})
	}
}

// The sequence numbers are known from the holders and the waiters, too.
func TestMend_NumbersIncreaseAfterTheNameIsLost(t *testing.T) {
	const ahead = 4_000_000_000_000_000 // µs: in the year 2096
	f := newFixture(t, 2)
	f.acquire("a", 1)
	f.do("HSET", f.key(""), "seq", ahead)
	b := f.acquire("b", 1)
	f.do("DEL", f.key(""))
	c := f.queue("c", 1)
	assert.Greater(t, c.Ticket, b.Fence)
	d := f.queue("d", 1)
	assert.Greater(t, d.Ticket, c.Ticket)
	f.do("DEL", f.key(""))
	assert.Greater(t, f.queue("e", 1).Ticket, d.Ticket)
	f.do("DEL", f.key("version")) // mended, and the name is still there
	f.do("DEL", f.key("queue"))
	f.do("DEL", f.key("locked"))
	assert.Greater(t, f.queue("f", 1).Ticket, d.Ticket+1)
}

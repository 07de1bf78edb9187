package protocol

import (
	"context"
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
		_, err := s.Acquire(context.Background(), waiter("new", 1), true, 0)
		return err
	},
	"try": func(s scene) error {
		s.wants["new"] = 1
		_, err := s.Acquire(context.Background(), waiter("new", 1), false, 0)
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
}

var suffixes = []string{"", "version", "available", "locked", "leases", "queue", "clients", "released"}

func TestMend_AfterAnyKeyIsLost(t *testing.T) {
	for i, first := range suffixes {
		t.Run(first, func(t *testing.T) { everyScene(t, first) })
		for _, second := range suffixes[i+1:] {
			t.Run(first+"+"+second, func(t *testing.T) { everyScene(t, first, second) })
		}
	}
}

// everyScene deletes keys in every state before every step.
func everyScene(t *testing.T, lost ...string) {
	for state, build := range scenes {
		for step, run := range oneStep {
			t.Run(state+" "+step, func(t *testing.T) {
				s := build(newFixture(t, 0))
				held := s.heldByTruth()
				for _, suffix := range lost {
					s.do("DEL", s.key(suffix))
				}
				if suffixLost(lost, "locked") && suffixLost(lost, "leases") {
					held = nil // nobody can know
					delete(s.wants, "a")
					delete(s.wants, "b")
					delete(s.wants, "e")
				}
				require.NoError(t, run(s))
				s.neverAbove()
				s.becomesWhole(held)
			})
		}
	}
}

func suffixLost(lost []string, suffix string) bool {
	for _, s := range lost {
		if s == suffix {
			return true
		}
	}
	return false
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

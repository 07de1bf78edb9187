package protocol

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// meddle writes something into a key as a foreign hand may: never what stands for a
// token or a job that is really there, nor another capacity or count, which nobody
// could tell from ours.
func (f *fixture) meddle(t *testing.T, suffix string, field, value []byte, score float64) {
	member := "foreign" + string(field)
	switch suffix {
	case "":
		name := string(field)
		if _, err := strconv.ParseFloat(strings.TrimSpace(string(value)), 64); err == nil && (name == "capacity" || name == "held") {
			t.Skip("it may be so")
		}
		f.do("HSET", f.key(""), name, value)
	case "available":
		if f.Kind == Queue {
			f.do("ZADD", f.key(suffix), score, value)
		} else {
			f.do("RPUSH", f.key(suffix), value)
		}
	case "locked":
		f.do("HSET", f.key(suffix), member, value)
	case "jobs":
		f.do("HSET", f.key(suffix), field, value)
	case "leases", "queue", "clients", "calls", "expiries":
		f.do("ZADD", f.key(suffix), score, member)
	case "released":
		f.do("LPUSH", f.key(suffix), value)
	case "inbox":
		f.do("RPUSH", f.Keys.Inbox("p2"), value)
		f.do("PEXPIRE", f.Keys.Inbox("p2"), 2*testLease.Milliseconds())
	}
	f.do("PEXPIRE", f.key(suffix), 2*testLease.Milliseconds())
}

var fuzzedSuffixes = []string{"", "available", "locked", "leases", "queue", "clients", "released", "calls", "inbox", "jobs", "expiries"}

func addHostile(f *testing.F) {
	for suffix := range fuzzedSuffixes {
		for step := range 12 {
			f.Add(uint8(suffix), uint8(step), []byte("lasting"), []byte("inf"), math.Inf(1))
			f.Add(uint8(suffix), uint8(step), []byte(" 1 60000 p1 o"), []byte("1 4000000000000 1 1 7 0 0 0 o"), 1.5)
			f.Add(uint8(suffix), uint8(step), []byte("late"), []byte("\x00\xff\n1 2 3"), -1.0)
			f.Add(uint8(suffix), uint8(step), []byte("12345"), []byte("12345 0 0"), 12345.0)
		}
	}
}

// Whatever somebody else writes into the keys of a semaphore, no step fails, no permit is
// granted too much, and at last all are there.
func FuzzSemaphoreWithForeignContent(f *testing.F) {
	addHostile(f)
	steps := slices.Sorted(maps.Keys(oneStep))
	f.Fuzz(func(t *testing.T, suffix, step uint8, field, value []byte, score float64) {
		if math.IsNaN(score) {
			t.Skip("not a score")
		}
		s := scenes["weighted"](newFixture(t, 0))
		held := s.heldByTruth()
		s.meddle(t, fuzzedSuffixes[int(suffix)%9], field, value, score)
		require.NoError(t, oneStep[steps[int(step)%len(steps)]](s))
		s.neverAbove()
		s.becomesWhole(held)
	})
}

// … or of a queue: no step fails, and no job is lost.
func FuzzQueueWithForeignContent(f *testing.F) {
	addHostile(f)
	steps := slices.Sorted(maps.Keys(queueSteps))
	f.Fuzz(func(t *testing.T, suffix, step uint8, field, value []byte, score float64) {
		if math.IsNaN(score) {
			t.Skip("not a score")
		}
		q := someJobs(t)
		key := fuzzedSuffixes[int(suffix)%len(fuzzedSuffixes)]
		if _, taken := q.dump().Jobs[string(field)]; taken && key == "jobs" {
			t.Skip("it is a job of ours")
		}
		q.meddle(t, key, field, value, score)
		q.do("PERSIST", q.key(key))
		require.NoError(t, queueSteps[steps[int(step)%len(steps)]](q))
		require.NoError(t, queueSteps["tend"](q))
		got := q.drain()
		require.Subset(t, append(got, "a", "b"), []string{"a", "b", "c", "d"}, fmt.Sprint(got))
	})
}

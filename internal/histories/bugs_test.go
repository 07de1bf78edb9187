package histories

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/mutation"
	"github.com/redsem/redsem/redisadapter"
)

// caughtWithin is how many histories a known bug may escape.
const caughtWithin = 60

// aRound is how many histories each bug gets at a time.
const aRound = 3

// Lines that some bugs are put into.
const (
	shortAcquire = "if plain and not repeated and 2 * lease <= ttl and held + n <= capacity and redis.call('ZCARD', QUEUE) == 0 then"
	reclaiming   = "local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, BATCH)"
)

// bugs are changes of the Lua that make a wrong semaphore of it.
var bugs = map[string][]mutation.Mutant{
	"one permit too many": {
		{Old: "return held + n <= capacity", New: "return held + n <= capacity + 1"},
		{Old: shortAcquire, New: "if plain and not repeated and 2 * lease <= ttl and held + n <= capacity + 1 and redis.call('ZCARD', QUEUE) == 0 then"},
	},
	"a release that ignores the end of the lease": {
		{Old: "if not ends or ends <= now then", New: "if not ends then"},
	},
	"leases taken back too early": {
		{Old: reclaiming, New: "local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now + 300, 'LIMIT', 0, BATCH)"},
	},
	"leases taken back too late": {
		{Old: reclaiming, New: "local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now - 3000, 'LIMIT', 0, BATCH)"},
	},
	"fences that repeat": {
		{Old: "local ends, fence = now + lease, math.max(seq + 1, clock)", New: "local ends, fence = now + lease, seq"},
		{Old: "seq = math.max(seq + 1, clock)", New: "seq = math.max(seq, 1)"},
	},
	"a count of one too many": {
		{Old: "return {now, more, grants, math.max(capacity - held, 0), capacity, holding(redis.call('HGET', LOCKED, ARGV[4])) and 1 or 0}",
			New: "return {now, more, grants, math.max(capacity - held, 0) + 1, capacity, holding(redis.call('HGET', LOCKED, ARGV[4])) and 1 or 0}"},
	},
	"a release that is answered and not done": {
		{Old: "drop(token, ARGV[6])", New: ""},
	},
	"a release that always succeeds": {
		{Old: "return {now, 0, '', 0, free}", New: "return {now, 0, '', 1, free}"},
	},
	"a release whose copy is refused": {
		{Old: "if done == call then", New: "if false then"},
	},
	"a renewal that ends the lease": {
		{Old: "ends = now + window", New: "ends = now"},
	},
	"a leave that keeps what was granted meanwhile": {
		{Old: "drop(token, '0')", New: ""},
	},
}

// The checker finds known bugs in the histories that it is given.
func TestKnownBugsAreCaught(t *testing.T) {
	names := slices.Sorted(maps.Keys(bugs))
	each(len(names), func(i int) {
		t.Run(names[i], func(t *testing.T) {
			bug := bugs[names[i]]
			for _, m := range bug {
				require.True(t, changes(m), "no step has the line %q", m.Old)
			}
			var made, caught atomic.Int64
			for caught.Load() == 0 && made.Load() < caughtWithin {
				first := uint64(made.Load()) + 1
				each(aRound, func(i int) {
					p := newPlan(first + uint64(i))
					p.scripts = rewriter(bug)
					t.Run(fmt.Sprint("seed ", p.seed), func(t *testing.T) {
						h, _, _ := run(t, p) // it may well be met by errors
						made.Add(1)
						if porcupine.CheckOperationsTimeout(model, h.operations(), patience) == porcupine.Illegal {
							caught.Add(1)
						}
					})
				})
			}
			require.Positive(t, caught.Load(), "not caught in %d histories", made.Load())
			t.Logf("caught in %d of %d histories", caught.Load(), made.Load())
		})
	})
}

// changes says whether a step has the line that a bug is put into.
func changes(m mutation.Mutant) bool {
	return slices.ContainsFunc(steps, func(s *redisadapter.Script) bool { return m.Apply(s) != s })
}

// rewriter makes the faulty copies of scripts with all the lines of a bug.
func rewriter(bug []mutation.Mutant) func(*redisadapter.Script) *redisadapter.Script {
	var rewrites []func(*redisadapter.Script) *redisadapter.Script
	for _, m := range bug {
		rewrites = append(rewrites, m.Rewriter())
	}
	return func(script *redisadapter.Script) *redisadapter.Script {
		for _, rewrite := range rewrites {
			script = rewrite(script)
		}
		return script
	}
}

package simulation

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/mutation"
	"github.com/redsem/redsem/redisadapter"
)

// caughtWithin is how many schedules a known bug may escape.
const caughtWithin = 300

// caught runs schedules with a bug, of a semaphore or of a queue, until one shows a flaw.
// It answers how many that took, 0 if none did.
func caught(t *testing.T, bug mutation.Mutant, queue bool, within int) (int, string) {
	rewrite := bug.Rewriter()
	n := 0
	for seed := uint64(1); n < within; seed++ {
		plan := NewPlan(seed)
		if plan.Queue != queue {
			continue
		}
		n++
		plan.Rewrite = rewrite
		if r := run(t, plan); len(r.Flaws) > 0 {
			return n, r.Flaws[0]
		}
	}
	return 0, ""
}

// The checks find each of these: a line of the Lua, and a wrong one in its place.
func TestKnownBugsAreCaught(t *testing.T) {
	if raced {
		t.Skip("too slow with the race detector; make simulate runs it without")
	}
	for name, bug := range map[string]struct {
		old, new string
		queue    bool
	}{
		"one permit too many": {old: "return held + n <= capacity", new: "return held + n <= capacity + 1"},
		"who asks overtakes who waits": {
			old: "elseif redis.call('ZCARD', QUEUE) == 0 and fits(n) then", new: "elseif fits(n) then",
		},
		"the last is served first": {
			old: "local member = redis.call('ZRANGE', QUEUE, 0, 0)[1]", new: "local member = redis.call('ZRANGE', QUEUE, -1, -1)[1]",
		},
		"ended leases are not taken back": {
			old: "for _, token in ipairs(over) do", new: "for _, token in ipairs({}) do",
		},
		"leases are taken back too early": {
			old: "local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, BATCH)",
			new: "local over = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now + 200, 'LIMIT', 0, BATCH)",
		},
		"what is released twice comes back twice": {
			old: "redis.call('HDEL', LOCKED, token)", new: "redis.call('EXISTS', LOCKED)",
		},
		"a release comes back without its permits": {old: "held = held - n", new: ""},
		"numbers repeat":                          {old: "seq = math.max(seq + 1, clock)", new: "seq = math.max(seq, clock - 1)"},
		"who leaves keeps what was granted":       {old: "drop(token, '0')", new: ""},
		"who leaves keeps the place":              {old: "redis.call('ZREM', QUEUE, member)", new: ""},
		"a call that comes late counts":           {old: "if void > 0 and now > void then", new: "if 1 == 2 then"},
		"a release that is repeated is not known": {old: "if done == call then", new: "if 1 == 2 then"},
		"a lease that is renewed does not last": {
			old: "if now + window > ends then", new: "if 1 == 2 then",
		},
		"keys do not live as long as leases": {old: "ttl = 2 * (ends - now)", new: "ttl = (ends - now) / 4"},
		"what was lost is free":              {old: "held = sum", new: "held = 0"},

		"a signal that is repeated counts twice": {old: "if not known then", new: "if 1 == 1 then", queue: true},
		"a job that is done comes back":          {old: "elseif how == '1' or (not how and handed == '2') or (ends ~= '0' and tonumber(ends) <= now) then", new: "elseif (not how and handed == '2') then", queue: true},
		"at most once is at least once":          {old: "elseif how == '1' or (not how and handed == '2') or (ends ~= '0' and tonumber(ends) <= now) then", new: "elseif how == '1' then", queue: true},
		"a job is lost with its consumer":        {old: "elseif how == '1' or (not how and handed == '2') or (ends ~= '0' and tonumber(ends) <= now) then", new: "elseif how ~= '0' then", queue: true},
		"a job is given to two": {
			old: "local first = redis.call('ZPOPMIN', AVAILABLE)[1]", new: "local first = redis.call('ZRANGE', AVAILABLE, 0, 0)[1]", queue: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			mutant := mutation.Mutant{Old: bug.old, New: bug.new}
			require.True(t, slices.ContainsFunc(Scripts(), func(s *redisadapter.Script) bool { return mutant.Apply(s) != s }), "no script has the line")
			n, flaw := caught(t, mutant, bug.queue, caughtWithin)
			require.Positive(t, n, "not caught in %d schedules", caughtWithin)
			t.Logf("caught in schedule %d: %s", n, flaw)
		})
	}
}

// A mutant that the command line names; see package mutation.
var (
	mutantOld = flag.String("mutant.old", "", "a line of Lua; TestMutant fails if another in its place shows a flaw")
	mutantNew = flag.String("mutant.new", "", "the other line")
	within    = flag.Int("mutant.schedules", 40, "how many schedules it gets, of semaphores and of queues")
)

func TestMutant(t *testing.T) {
	if *mutantOld == "" {
		t.Skip("-mutant.old is not set")
	}
	for _, queue := range []bool{false, true} {
		n, flaw := caught(t, mutation.Mutant{Old: *mutantOld, New: *mutantNew}, queue, *within)
		require.Zero(t, n, "caught in schedule %d: %s", n, flaw)
	}
}

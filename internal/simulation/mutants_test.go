package simulation

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/mutation"
)

// caughtWithin is how many schedules a known bug may escape.
const caughtWithin = 1500

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

// The checks would find these.
func TestKnownBugsAreCaught(t *testing.T) {
	for name, bug := range map[string]struct {
		mutation.Mutant
		queue bool
	}{
		"one permit too many": {Mutant: mutation.Mutant{Old: "return held + n <= capacity", New: "return held + n <= capacity + 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, flaw := caught(t, bug.Mutant, bug.queue, caughtWithin)
			require.Positive(t, n, "not caught")
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

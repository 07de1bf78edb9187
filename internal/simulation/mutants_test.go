package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/mutation"
	"github.com/redsem/redsem/redisadapter"
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

var (
	mutate   = flag.Bool("mutants", false, "run all mutants of the Lua, and list those that no schedule catches")
	mutantsN = flag.Int("mutants.schedules", 400, "how many schedules each mutant gets, of each kind")
	share    = flag.String("mutants.share", "0/1", "which share of the mutants to run")
	report   = flag.String("mutants.report", "", "a file for those that are not caught")
)

func TestMutants(t *testing.T) {
	if !*mutate {
		t.Skip("-mutants is not set")
	}
	var scripts []*redisadapter.Script
	for _, step := range steps() {
		scripts = append(scripts, step.script)
	}
	mutants := mutation.Of(scripts...)
	var survivors []string
	killed := 0
	var i, n int
	_, err := fmt.Sscanf(*share, "%d/%d", &i, &n)
	require.NoError(t, err)
	mutants = mutants[len(mutants)*i/n : len(mutants)*(i+1)/n]
	for _, m := range mutants {
		if *report != "" {
			require.NoError(t, os.WriteFile(*report+".now", []byte(m.String()), 0o644))
		}
		n, _ := caught(t, m, false, *mutantsN)
		if n == 0 {
			n, _ = caught(t, m, true, *mutantsN)
		}
		if n == 0 {
			survivors = append(survivors, m.String())
			continue
		}
		killed++
	}
	t.Logf("%d of %d mutants are caught; not caught:\n%s", killed, len(mutants), strings.Join(survivors, "\n"))
	if *report != "" {
		require.NoError(t, os.WriteFile(*report, []byte(strings.Join(survivors, "\n")+"\n"), 0o644))
	}
}

package simulation

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	schedules = flag.Int("schedules", 100, "how many schedules to run, one for each seed")
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	traced    = flag.Bool("events", false, "print all that happens")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a plan in a bubble of its own.
func run(t *testing.T, plan Plan) (r Result) {
	synctest.Test(t, func(*testing.T) { r = Run(plan) })
	return r
}

// plans are those that the command line asks for.
func plans(yield func(Plan) bool) {
	for i := range *schedules {
		plan := NewPlan(*firstSeed + uint64(i))
		plan.Trace = *traced
		if !yield(plan) {
			return
		}
	}
}

func TestSchedulesKeepEveryPromise(t *testing.T) {
	start := time.Now()
	sum := Counts{Faults: make(map[string]int)}
	for plan := range plans {
		r := run(t, plan)
		sum.Add(r.Counts)
		if *traced {
			t.Log(strings.Join(r.Events, "\n"))
		}
		if len(r.Flaws) > 0 {
			t.Errorf("%v\n%s\nto see it again: go test ./internal/simulation -run Promise -cpu 1 -schedules 1 -seed %d -events -v",
				plan, strings.Join(r.Flaws, "\n"), plan.Seed)
		}
	}
	t.Logf("%d schedules in %v: %v", *schedules, time.Since(start).Round(time.Millisecond), sum)
}

// Two runs of a seed are the same in all that happens, and when. Where several goroutines
// wake at one moment Go chooses their order, which is the same on one processor, but for
// rare times when it takes one away: then another try must be the same.
func TestSeedReplaysExactly(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for plan := range plans {
		plan.Trace = true
		first, second := run(t, plan), run(t, plan)
		for tries := 0; tries < 3 && second.Digest != first.Digest; tries++ {
			t.Logf("%v: %s", plan, difference(first.Events, second.Events))
			first, second = second, run(t, plan)
		}
		if second.Digest != first.Digest {
			t.Errorf("%v is never the same", plan)
		}
	}
}

// difference shows where two runs part.
func difference(a, b []string) string {
	isTold := func(event string) bool { return strings.HasPrefix(strings.TrimSpace(event), "args") }
	a, b = slices.DeleteFunc(a, isTold), slices.DeleteFunc(b, isTold)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			around := func(events []string) string {
				return strings.Join(events[max(i-5, 0):min(i+5, len(events))], "\n")
			}
			return fmt.Sprintf("event %d differs\n%s\n\n%s", i, around(a), around(b))
		}
	}
	return fmt.Sprintf("%d and %d events", len(a), len(b))
}

// With -parts, the schedules are shared among that many processes: a run uses the clock
// of its process, so there is one at a time in each.
var parts = flag.Int("parts", 0, "share the schedules among so many processes (0: none beside this, -1: one for each processor)")

func TestSchedulesInSeveralProcesses(t *testing.T) {
	n := *parts
	if n == 0 {
		t.Skip("-parts is not set")
	}
	if n < 0 {
		n = runtime.GOMAXPROCS(0)
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	t.Run("part", func(t *testing.T) {
		for i := range n {
			from, to := *schedules*i/n, *schedules*(i+1)/n
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(exe, "-test.run", "TestSchedulesKeepEveryPromise", "-test.v", "-test.timeout", "0",
					"-schedules", fmt.Sprint(to-from), "-seed", fmt.Sprint(*firstSeed+uint64(from)))
				cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
				t.Logf("%s", out)
			})
		}
	})
}

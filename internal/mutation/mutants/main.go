// Command mutants changes one line of the Lua after the other and runs the tests of
// the scripts, to find lines that could be wrong without anybody's notice. It takes
// about an hour on two processors.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redsem/redsem/internal/mutation"
	"github.com/redsem/redsem/internal/simulation"
)

var (
	workers = flag.Int("workers", 2, "how many mutants to run at a time")
	lines   = flag.Bool("lines", false, "only leave out statements, and make conditions always or never so")
	from    = flag.Int("from", 0, "the first mutant to run")
	to      = flag.Int("to", 1<<30, "the one after the last")
)

// longest is how long a run of the tests may take; without a fault none takes so
// long.
const longest = 5 * time.Minute

// hunts are the tests that a mutant has to get past, the quickest first.
var hunts = []struct {
	name, pkg string
	args      []string
}{
	{"simulation", "simulation", []string{"-test.run", "^TestMutant$"}},
	{"property tests", "protocol", []string{"-test.run", "Property", "-property.steps", "3000"}},
	{"tests of the steps", "protocol", []string{"-test.skip", "Property", "-test.failfast"}},
}

func main() {
	flag.Parse()
	if err := hunt(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hunt() error {
	dir, err := os.MkdirTemp("", "redsem-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, pkg := range []string{"simulation", "protocol"} {
		build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, pkg), "./internal/"+pkg)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	all := mutation.Of(simulation.Scripts()...)
	if *lines {
		all = slices.DeleteFunc(all, func(m mutation.Mutant) bool { return !m.Removal() })
	}
	fmt.Printf("%d mutants\n", len(all))
	all = all[min(*from, len(all)):min(*to, len(all))]
	killed := make([]atomic.Int64, len(hunts)+1)
	next := make(chan int)
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			for i := range next {
				by := killer(dir, all[i])
				killed[by].Add(1)
				if by == len(hunts) {
					fmt.Printf("%d survives: %v\n", *from+i, all[i])
				}
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	fmt.Printf("%d run", len(all))
	for i, h := range hunts {
		fmt.Printf(", %d caught by the %s", killed[i].Load(), h.name)
	}
	fmt.Printf(", %d not caught\n", killed[len(hunts)].Load())
	return nil
}

// killer is the hunt that catches a mutant; their number if none does.
func killer(dir string, m mutation.Mutant) int {
	for i, h := range hunts {
		ctx, cancel := context.WithTimeout(context.Background(), longest)
		cmd := exec.CommandContext(ctx, filepath.Join(dir, h.pkg), append(h.args, "-mutant.old", m.Old, "-mutant.new", m.New)...)
		cmd.Dir = filepath.Join("internal", h.pkg)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		cancel()
		if err != nil {
			return i
		}
	}
	return len(hunts)
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// report is what a soak has found.
type report struct {
	config
	took       time.Duration // under faults
	began      int64
	operations map[string]int
	faults     map[string]int
	errors     map[string]int
	inside     map[string]int // at most at once
	violations []violation
	wrong      int
	waits      histogram
	longest    violation
	start, end sample
}

func newReport(c config, j *judge, took time.Duration, began int64, faults map[string]int, start, end sample) report {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := report{config: c, took: took, began: began, operations: maps.Clone(j.counts), faults: faults, errors: maps.Clone(j.errors),
		inside: make(map[string]int), violations: slices.Clone(j.violations), wrong: j.wrong, waits: j.waits, longest: j.longest, start: start, end: end}
	for name, room := range j.rooms {
		r.inside[name] = room.most
	}
	return r
}

func (r report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...any) {
		for _, cell := range cells {
			fmt.Fprint(t, cell, "\t")
		}
		fmt.Fprintln(t)
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	line("under faults for", r.took.Round(time.Millisecond))
	line("seed", r.seed)
	t.Flush()
	seconds := max(r.took, time.Millisecond).Seconds()

	fmt.Fprintln(out, "\noperations")
	total := 0
	for _, name := range slices.Sorted(maps.Keys(r.operations)) {
		line(name, r.operations[name], fmt.Sprintf("%.1f/s", float64(r.operations[name])/seconds))
		total += r.operations[name]
	}
	line("all", total, fmt.Sprintf("%.1f/s", float64(total)/seconds))
	t.Flush()

	fmt.Fprintln(out, "\nfaults")
	r.list(line, r.faults)
	t.Flush()
	fmt.Fprintln(out, "\nerrors, all of known kinds unless there is a violation")
	r.list(line, r.errors)
	t.Flush()

	fmt.Fprintln(out, "\nmost permits inside at once")
	for _, name := range names {
		line(name, r.inside[name], fmt.Sprint("of ", capacities[name]))
	}
	t.Flush()

	fmt.Fprintln(out, "\nwaits that ended with a permit")
	line("count", r.waits.count)
	line("median", round(r.waits.quantile(0.5)))
	line("99 %", round(r.waits.quantile(0.99)))
	line("longest", round(r.waits.longest), r.longest.text, fmt.Sprintf("until %.3fs", time.Duration(r.longest.at-r.began).Seconds()))
	t.Flush()

	fmt.Fprintln(out, "\nwhen quiet")
	line("", "start", "end", "bound")
	line("goroutines", r.start.goroutines, r.end.goroutines, r.start.goroutines+moreGoroutines)
	line("connections", r.start.connections, r.end.connections, r.start.connections+moreConnections)
	line("heap, KiB", r.start.heap>>10, r.end.heap>>10, (r.start.heap+moreHeap)>>10)
	line("redis, KiB", r.start.memory>>10, r.end.memory>>10, (r.start.memory+moreMemory)>>10)
	t.Flush()

	fmt.Fprintf(out, "\nviolations: %d\n", r.wrong)
	for _, v := range r.violations {
		fmt.Fprintf(out, "%10.3fs  %s\n", time.Duration(v.at-r.began).Seconds(), v.text)
	}
}

// list prints counts, and their sum.
func (r report) list(line func(...any), counts map[string]int) {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		line(name, counts[name])
		total += counts[name]
	}
	line("all", total)
}

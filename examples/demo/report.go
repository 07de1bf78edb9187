package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxFaults is how many violations of one kind are listed.
const maxFaults = 10

// report prints what happened and the verdicts, and says whether all are good.
func report(out *screen, e evidence, pids map[string]int) bool {
	out.line("")
	printGrants(out, e)
	out.line("")
	printTimeline(out, e, pids)
	out.line("")
	var longest time.Duration
	for _, g := range e.gaps {
		longest = max(longest, g.to-g.from)
	}
	if longest > 0 {
		out.line("%s", out.paint(red, fmt.Sprintf("This machine is busy: it took Redis up to %s to answer.", seconds(longest))))
	}
	return printVerdicts(out, check(e))
}

// printGrants lists the grants in their order, in two columns. The tickets are
// numbered in their order too: who found a permit free has none, but a place.
func printGrants(out *screen, e evidence) {
	held := e.held()
	byArrival := slices.Clone(held)
	slices.SortFunc(byArrival, func(a, b visit) int { return cmp.Compare(a.arrival(), b.arrival()) })
	place := make(map[int64]int)
	for i, v := range byArrival {
		place[v.fence] = i + 1
	}
	out.line("%s", out.paint(bold, "Grants, in their order: whose ticket is lower comes first"))
	head := out.paint(faint, "grant  ticket  process  waited  inside")
	out.line("%s   %s", head, head)
	rows := (len(held) + 1) / 2
	for i := range rows {
		line := grantLine(out, e, i+1, place, held[i])
		if i+rows < len(held) {
			line += "   " + grantLine(out, e, i+rows+1, place, held[i+rows])
		}
		out.line("%s", line)
	}
}

func grantLine(out *screen, e evidence, n int, place map[int64]int, v visit) string {
	inside := fmt.Sprintf("%4.2f s", (v.until() - v.got).Seconds())
	switch {
	case v.worker == e.victim && v.ended == 0:
		inside = "killed"
	case !v.left:
		inside = "  lost"
	}
	colour := colourOf(v.worker)
	return fmt.Sprintf("%5d  %6d  %s %4.2f s  %s", n, place[v.fence], out.paint(colour, pad(v.worker, 8)),
		(v.got - v.asked).Seconds(), inside)
}

func colourOf(worker string) string {
	return palette[max(0, slices.Index(names, worker))%len(palette)]
}

func printTimeline(out *screen, e evidence, pids map[string]int) {
	const label = 16
	t := newTimeline(e, width-label-1)
	out.line("%s", out.paint(bold, "Who was inside when"))
	out.line("%s", legend)
	for _, name := range names {
		who := out.paint(colourOf(name), pad(name, 8)) + out.paint(faint, fmt.Sprintf("%7d", pids[name]))
		out.line("%s %s", who, paintRow(out, t.row(name), colourOf(name)))
	}
	out.line("%s%s", pad("at work", label), out.paint(faint, string(t.busy())))
	out.line("%s%s", pad("seconds", label), out.paint(faint, t.scale()))
}

func printVerdicts(out *screen, verdicts []verdict) bool {
	passed := true
	out.line("%s", out.paint(bold, "Checked by the processes' own records"))
	for _, v := range verdicts {
		if len(v.faults) == 0 {
			out.line("%s %s", out.paint(green, "✓"), v.text)
			if v.note != "" {
				out.line("  %s", v.note)
			}
			continue
		}
		passed = false
		out.line("%s", out.paint(red, "✗ not so: "+v.text))
		for i, fault := range v.faults {
			if i == maxFaults {
				out.line("    and %d more", len(v.faults)-maxFaults)
				break
			}
			out.line("    %s", fault)
		}
	}
	return passed
}

package main

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTimeline(t *testing.T) {
	e := goodEvidence()
	timeline := newTimeline(e, 20) // 50 ms a column: it ends at 1 s
	rows := map[string]string{
		"ash":     "██··········████    ",
		"birch":   "████·········█████  ",
		"cedar":   "··████✗░░░░░↺       ",
		"dogwood": "····█████████       ",
		"elm":     "                    ",
	}
	for worker, row := range rows {
		require.Equal(t, row, string(timeline.row(worker)), worker)
	}
	require.Equal(t, "22222221111122222110", string(timeline.busy()))
	require.Equal(t, "0", timeline.scale())

	timeline.end = 10 * time.Second
	require.Equal(t, "0 1 2 3 4 5 6 7 8 9", timeline.scale())
}

func TestReportFitsTheTerminal(t *testing.T) {
	e := goodEvidence()
	e.visits = append(e.visits, visit{worker: "elm", pkg: "waits for ever", asked: ms})
	var out bytes.Buffer
	require.True(t, report(&screen{out: &out}, e, map[string]int{"ash": 4194304}))
	for line := range bytes.Lines(out.Bytes()) {
		require.LessOrEqual(t, utf8.RuneCount(bytes.TrimSpace(line)), width, string(line))
	}
	require.NotContains(t, out.String(), "\x1b", "colours, without a terminal")
}

func TestViolationsAreReported(t *testing.T) {
	e := goodEvidence()
	e.free = 1
	var out bytes.Buffer
	require.False(t, report(&screen{out: &out}, e, nil))
	require.Contains(t, out.String(), "✗ not so: all 2 permits are free again\n    1 permits are free at the end, must be 2\n")
	require.Contains(t, out.String(), "✓ never more than 2 inside")
}

// The line that changes goes before one that stays is printed.
func TestScreenOfTerminal(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, terminal: true, colour: true}
	s.status("one")
	s.status("two")
	s.line("%s", s.paint(red, "three"))
	s.line("four")
	require.Equal(t, "\rone\x1b[K\rtwo\x1b[K\r\x1b[K\x1b[1;31mthree\x1b[0m\nfour\n", out.String())
}

func TestScreenOfFileChangesOnceASecond(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	s.status("one")
	s.status("two")
	s.line("three")
	require.Equal(t, "one\nthree\n", out.String())
}

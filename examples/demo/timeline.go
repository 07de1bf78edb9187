package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a column of the timeline shows.
const (
	signAway    = ' '
	signWaiting = '·'
	signInside  = '█'
	signKilled  = '✗'
	signLease   = '░'
	signBack    = '↺'
)

const legend = "█ inside   · waiting   ✗ killed   ░ its lease runs on   ↺ its permit is back"

// span is a time in which a worker was in one state.
type span struct {
	from, to time.Duration
	sign     rune
}

// timeline is one row of signs for each worker, columns wide, of the time from 0
// to end.
type timeline struct {
	evidence
	columns int
	end     time.Duration
}

func newTimeline(e evidence, columns int) timeline {
	t := timeline{evidence: e, columns: columns, end: time.Second}
	for _, v := range e.visits {
		t.end = max(t.end, v.ended)
	}
	return t
}

// spans are those of a worker, in order. Between two visits it waits, also in the
// moment that it takes to get the next job.
func (t timeline) spans(worker string) []span {
	var all []span
	for _, v := range t.visits {
		if v.worker != worker {
			continue
		}
		from := v.asked
		if len(all) > 0 {
			from = all[len(all)-1].to
		}
		switch {
		case v.got == 0:
			all = append(all, span{from, t.end, signWaiting})
		case v.ended == 0:
			all = append(all, span{from, v.got, signWaiting}, span{v.got, t.killedAt, signInside},
				span{t.killedAt, v.deadline, signLease})
		default:
			all = append(all, span{from, v.got, signWaiting}, span{v.got, v.until(), signInside})
		}
	}
	return all
}

// row draws a worker. Each column shows the moment in its middle: so no column
// shows more inside at once than there were.
func (t timeline) row(worker string) []rune {
	spans := t.spans(worker)
	row := make([]rune, t.columns)
	for column := range row {
		row[column] = signAway
		middle := (t.at(column) + t.at(column+1)) / 2
		for _, s := range spans {
			if s.from <= middle && middle < s.to {
				row[column] = s.sign
			}
		}
	}
	if worker == t.victim {
		t.mark(row)
	}
	return row
}

// mark draws the death of the victim and the return of its permit.
func (t timeline) mark(row []rune) {
	row[t.column(t.killedAt)] = signKilled
	if back, ok := t.backAt(); ok {
		row[t.column(back)] = signBack
	}
}

// busy counts for each column how many were at work at once, at most.
func (t timeline) busy() []rune {
	busy := []rune(strings.Repeat("0", t.columns))
	working := t.held()
	for i, v := range working {
		if v.worker == t.victim && v.ended == 0 {
			working[i].deadline = t.killedAt // it holds on, but does not work
		}
	}
	n, column := 0, 0
	for _, s := range steps(working) {
		for ; column < t.column(s.at); column++ {
			busy[column+1] = rune('0' + n)
		}
		n += s.by
		busy[column] = max(busy[column], rune('0'+n))
	}
	return busy
}

// scale draws the seconds.
func (t timeline) scale() string {
	row := []rune(strings.Repeat(" ", t.columns+4))
	every := max(1, int(t.end.Seconds())/16+1)
	for s := 0; time.Duration(s)*time.Second < t.end; s += every {
		copy(row[t.column(time.Duration(s)*time.Second):], []rune(fmt.Sprint(s)))
	}
	return strings.TrimRight(string(row[:t.columns]), " ")
}

func (t timeline) at(column int) time.Duration {
	return t.end * time.Duration(column) / time.Duration(t.columns)
}

func (t timeline) column(at time.Duration) int {
	return min(max(int(at*time.Duration(t.columns)/t.end), 0), t.columns-1)
}

// paintRow colours a row by runs of the same sign.
func paintRow(s *screen, row []rune, own string) string {
	row = []rune(strings.TrimRight(string(row), string(signAway)))
	var text strings.Builder
	for len(row) > 0 {
		end := slices.IndexFunc(row, func(r rune) bool { return r != row[0] })
		if end < 0 {
			end = len(row)
		}
		colour := own
		switch row[0] {
		case signWaiting:
			colour = faint
		case signKilled, signLease:
			colour = red
		case signBack:
			colour = green
		}
		text.WriteString(s.paint(colour, string(row[:end])))
		row = row[end:]
	}
	return text.String()
}

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The line of the state shows the queue in its order, and never more inside than
// there can be, even if the news that somebody left has yet to come.
func TestStatus(t *testing.T) {
	p := &parent{total: 40, done: 7, clock: newClock(time.Now()), crew: &crew{workers: []*member{
		{name: "ash", state: eventGot, got: 3, deadline: time.Hour},
		{name: "birch", state: eventGot, got: 1, deadline: time.Hour}, // has left
		{name: "cedar", state: eventGot, got: 2, deadline: time.Hour},
		{name: "dogwood", state: eventQueued, ticket: 9},
		{name: "elm", state: eventQueued, ticket: 8},
	}}}
	require.Equal(t, "  0.0 s   7/40 done  inside: ash, cedar       queue: elm, dogwood", p.status())

	p.killedAt, p.deadUntil = 1, time.Hour
	require.Equal(t, "  0.0 s   7/40 done  inside: ash, ✗cedar      queue: elm, dogwood", p.status())
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// isInside says whether a worker whose last event is given has a permit, and
// keeps it.
func isInside(state string) bool { return state == eventGot || state == eventRenewed }

func isQueued(state string) bool { return state == eventQueued }

// inState are the living workers in a state.
func (p *parent) inState(is func(string) bool) []*member {
	return slices.DeleteFunc(slices.Clone(p.crew.workers), func(m *member) bool {
		return m.dead || m.name == victim && p.killedAt != 0 || !is(m.state)
	})
}

// inside are the workers that have a permit now. The news of two workers come by two
// pipes, in either order: of those that seem to be inside, the last ones are.
func (p *parent) inside() []*member {
	members := slices.DeleteFunc(p.inState(isInside), func(m *member) bool { return p.clock.now() > m.deadline })
	slices.SortFunc(members, func(a, b *member) int { return cmp.Compare(b.got, a.got) })
	limit := capacity
	if p.deadHolds() {
		limit--
	}
	members = members[:min(len(members), limit)]
	slices.SortFunc(members, func(a, b *member) int { return cmp.Compare(a.name, b.name) })
	return members
}

// deadHolds says whether the dead victim still has its permit.
func (p *parent) deadHolds() bool { return p.killedAt != 0 && p.clock.now() < p.deadUntil }

// status is the line that shows how things are.
func (p *parent) status() string {
	queue := p.inState(isQueued)
	slices.SortFunc(queue, func(a, b *member) int { return cmp.Compare(a.ticket, b.ticket) })
	inside := list(p.inside())
	if p.deadHolds() {
		inside = strings.Trim(inside+", "+string(signKilled)+victim, ", ")
	}
	return fmt.Sprintf("%5.1f s  %2d/%d done  inside: %s  queue: %s",
		p.clock.now().Seconds(), p.done, p.total, pad(inside, 15), list(queue))
}

func list(members []*member) string {
	var names []string
	for _, m := range members {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

func pad(text string, n int) string { return fmt.Sprintf("%-*s", n, text) }

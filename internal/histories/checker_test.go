package histories

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// forever is after everything that happens in the histories here.
const forever = 1000

// grantOf is an acquire that succeeds, of one permit whose lease ends later than all else.
func grantOf(id int, from, to int64, fence int64) *event {
	return &event{call: acquired, client: id, from: from, to: to, hold: &hold{id: id, n: 1, fence: fence, earliest: forever}}
}

// of makes an event about the hold of a grant.
func of(c call, grant *event, from, to int64, a answer) *event {
	return &event{call: c, from: from, to: to, hold: grant.hold, answer: a}
}

func count(from, to int64, free int) *event {
	return &event{call: counted, from: from, to: to, free: free}
}

func try(from, to int64, n int) *event {
	return &event{call: refused, from: from, to: to, n: n}
}

// leased is a grant whose lease ends earlier.
func leased(grant *event, n int, earliest, latest int64) *event {
	grant.hold.n, grant.hold.earliest, grant.hold.latest = n, earliest, latest
	return grant
}

// failure is an acquire that fails, with what it may have got.
func failure(from, to int64, n int, ghosts ...ghost) *event {
	return &event{call: failed, from: from, to: to, n: n, blocking: true, forgotten: ghosts}
}

func check(capacity int, events ...*event) porcupine.CheckResult {
	h := &history{capacity: capacity, events: events, end: forever}
	return porcupine.CheckOperationsTimeout(model, h.operations(), patience)
}

func TestCheckerRefusesWhatASemaphoreCannotDo(t *testing.T) {
	a, b := grantOf(1, 0, 10, 5), grantOf(2, 20, 30, 6)
	for name, events := range map[string][]*event{
		"two holders of one permit":                  {a, b},
		"a fence that falls":                         {a, of(released, a, 11, 12, yes), grantOf(2, 20, 30, 4)},
		"a fence that repeats":                       {a, of(released, a, 11, 12, yes), grantOf(2, 20, 30, 5)},
		"a release that succeeds twice":              {a, of(released, a, 11, 12, yes), of(released, a, 11, 14, yes)},
		"a release before the grant":                 {b, of(released, b, 5, 19, yes)},
		"a count that is too high":                   {a, count(12, 15, 1)},
		"a count that is too low":                    {a, of(released, a, 11, 12, yes), count(13, 15, 0)},
		"a count too low before a ghost":             {count(1, 2, 0), failure(3, 10, 1, ghost{1, forever})},
		"a count too low after a ghost":              {failure(3, 10, 1, ghost{1, 20}), count(21, 22, 0)},
		"a count too high beside a ghost":            {a, failure(12, 14, 1, ghost{1, forever}), count(15, 16, 1)},
		"a release that tells of too many":           {a, {call: atMost, from: 12, to: 15, free: 1}},
		"a refusal though all are free":              {try(1, 2, 1), b},
		"a refusal of fewer than are free":           {a, of(released, a, 11, 12, yes), try(13, 14, 1)},
		"a hold before an abandoned one ends":        {leased(grantOf(1, 0, 10, 5), 1, 100, 0), grantOf(2, 20, 99, 6)},
		"a release after the end of the lease":       {leased(grantOf(1, 0, 10, 5), 1, 100, 200), of(released, a, 201, 202, yes)},
		"a holder who is told that it does not hold": {a, of(asked, a, 12, 13, no)},
		"a token that holds after its release":       {a, of(released, a, 11, 12, yes), of(asked, a, 13, 14, yes)},
		"a token that is lost and holds again": {leased(grantOf(1, 0, 10, 5), 1, 100, 0),
			of(asked, a, 110, 111, no), of(asked, a, 112, 113, yes)},
		"a release that is refused without cause": {a, of(released, a, 11, 12, no)},
		"a lease that never ends":                 {leased(grantOf(1, 0, 10, 5), 1, 100, 0), count(forever+1, forever+2, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Illegal, check(1, same(events)...))
		})
	}
	t.Run("three permits of two", func(t *testing.T) {
		require.Equal(t, porcupine.Illegal, check(2, grantOf(1, 0, 10, 5), leased(grantOf(2, 20, 30, 6), 2, forever, 0)))
	})
}

// same makes all events about hold 1 tell of the same hold: the first.
func same(events []*event) []*event {
	for _, e := range events[1:] {
		if e.hold != nil && e.hold.id == events[0].id() {
			e.hold = events[0].hold
		}
	}
	return events
}

func (e *event) id() int {
	if e.hold == nil {
		return 0
	}
	return e.hold.id
}

func TestCheckerAllowsWhatASemaphoreMayDo(t *testing.T) {
	a, b := grantOf(1, 0, 10, 5), grantOf(2, 20, 30, 6)
	for name, events := range map[string][]*event{
		"nothing":                              {count(0, 1, 1)},
		"one after the other":                  {a, of(released, a, 11, 12, yes), b, of(released, b, 31, 32, yes), count(40, 50, 1)},
		"a grant during the release":           {a, of(released, a, 15, 40, yes), b},
		"fences in another order than answers": {grantOf(1, 0, 30, 5), of(released, a, 31, 32, yes), grantOf(2, 0, 40, 6), try(20, 41, 1)},
		"a second release that is refused":     {a, of(released, a, 11, 12, yes), of(released, a, 13, 14, no)},
		"a count before the grant":             {grantOf(1, 0, 10, 5), count(5, 15, 1)},
		"a count after the grant":              {grantOf(1, 0, 10, 5), count(5, 15, 0)},
		"a hold after an abandoned one":        {leased(grantOf(1, 0, 10, 5), 1, 100, 0), grantOf(2, 20, 100, 6)},
		"a lease that ends late":               {leased(grantOf(1, 0, 10, 5), 1, 100, 0), of(asked, a, 500, 501, yes)},
		"a release that had no effect":         {a, of(released, a, 11, 12, silent), of(asked, a, 13, 14, yes)},
		"a failed release that had effect":     {a, of(released, a, 11, 12, silent), b},
		"a failed release that has effect later": {a, of(released, a, 11, 12, silent), of(asked, a, 13, 14, yes),
			of(asked, a, 15, 16, no), b},
		"a ghost that holds":               {failure(3, 10, 1, ghost{1, 20}), count(15, 16, 0)},
		"a ghost that does not":            {failure(3, 10, 1, ghost{1, 20}), count(15, 16, 1)},
		"a refusal while somebody waits":   {failure(3, 10, 1), try(5, 6, 1)},
		"a refusal because of a ghost":     {failure(3, 10, 1, ghost{1, 20}), try(15, 16, 1)},
		"a count of lapsed leases as held": {a, of(released, a, 11, 12, yes), {call: atMost, from: 13, to: 14, free: 0}},
		"a release at the end of the lease": {leased(grantOf(1, 0, 10, 5), 1, 100, 200),
			of(released, a, 150, 300, yes)},
		"a token that is lost": {leased(grantOf(1, 0, 10, 5), 1, 100, 200), of(asked, a, 110, 111, yes),
			of(asked, a, 120, 121, no), of(released, a, 130, 131, no)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Ok, check(1, same(events)...))
		})
	}
	t.Run("many permits", func(t *testing.T) {
		two := leased(grantOf(2, 20, 30, 6), 2, forever, 0)
		require.Equal(t, porcupine.Ok, check(3, a, two, count(31, 32, 0), try(33, 34, 1),
			of(released, two, 35, 36, yes), count(37, 38, 2), try(39, 40, 3)))
	})
}

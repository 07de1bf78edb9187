package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// made up: ash and birch come first; cedar and dogwood wait; cedar is killed over
// "c", and when its lease has ended ash gets in for the second time; birch, which
// is the heir, does "c" then.
func goodEvidence() evidence {
	return evidence{
		capacity: 2,
		lease:    500 * ms,
		visits: []visit{
			{worker: "ash", pkg: "a", asked: 1 * ms, got: 2 * ms, deadline: 502 * ms, leaving: 100 * ms, ended: 101 * ms,
				fence: 10, digest: "A", left: true},
			{worker: "birch", pkg: "b", asked: 3 * ms, got: 4 * ms, deadline: 504 * ms, leaving: 200 * ms, ended: 201 * ms,
				fence: 11, digest: "B", left: true},
			{worker: "cedar", pkg: "c", asked: 4 * ms, queued: 5 * ms, got: 102 * ms, deadline: 600 * ms,
				ticket: 12, fence: 14},
			{worker: "dogwood", pkg: "d", asked: 4 * ms, queued: 6 * ms, got: 203 * ms, deadline: 700 * ms, leaving: 650 * ms, ended: 651 * ms,
				ticket: 13, fence: 16, digest: "D", left: true},
			{worker: "ash", pkg: "e", asked: 102 * ms, queued: 103 * ms, got: 605 * ms, deadline: 1100 * ms, leaving: 800 * ms, ended: 801 * ms,
				ticket: 15, fence: 18, digest: "E", left: true},
			{worker: "birch", pkg: "c", asked: 202 * ms, queued: 203 * ms, got: 652 * ms, deadline: 1200 * ms, leaving: 900 * ms, ended: 901 * ms,
				ticket: 17, fence: 19, digest: "C", left: true},
		},
		packages: []string{"a", "b", "c", "d", "e"},
		files:    50,
		digests:  map[string]string{"a": "A", "b": "B", "c": "C", "d": "D", "e": "E"},
		victim:   "cedar",
		killedAt: 300 * ms,
		free:     2,
	}
}

// faultsOf says which checks find faults.
func faultsOf(e evidence) map[string][]string {
	found := make(map[string][]string)
	for i, name := range []string{"inside", "order", "work", "victim", "free"} {
		if faults := check(e)[i].faults; len(faults) > 0 {
			found[name] = faults
		}
	}
	return found
}

func TestGoodEvidencePasses(t *testing.T) {
	require.Empty(t, faultsOf(goodEvidence()))
	require.Equal(t, "cedar died inside: permit back 5ms after its lease ended, job done by birch", check(goodEvidence())[3].text)
}

func TestFaultsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(e *evidence)
		check string
		fault string
	}{
		"three inside": {
			func(e *evidence) { e.visits[3].got = 150 * ms },
			"inside", "3 inside at 0.150 s, when dogwood came in for d",
		},
		"the permit of the killed given away before its lease ended": {
			func(e *evidence) { e.visits[4].got = 599 * ms },
			"inside", "3 inside at 0.599 s, when ash came in for e",
		},
		"grants against the tickets": {
			func(e *evidence) { e.visits[2].fence, e.visits[3].fence = e.visits[3].fence, e.visits[2].fence },
			"order", "dogwood (d) overtook cedar (c), which had the lower ticket",
		},
		"grants against the clock, with tickets that lie": {
			func(e *evidence) { e.visits[4].ticket, e.visits[4].fence = 12, 13 },
			"order", "ash (e) overtook dogwood (d), which was queued before it asked",
		},
		"grants against the clock, without tickets": {
			func(e *evidence) { e.visits[0].fence, e.visits[1].fence = 11, 10 },
			"order", "birch (b) overtook ash (a), which was queued before it asked",
		},
		"one fence for two": {
			func(e *evidence) { e.visits[1].fence = 10 },
			"order", "ash (a) and birch (b) got the same fence",
		},
		"a fence below its ticket": {
			func(e *evidence) { e.visits[5].ticket = 20 },
			"order", "birch (c) has a fence below its ticket",
		},
		"a lost package": {
			func(e *evidence) { e.packages = append(e.packages, "f") },
			"work", "f was lost: nobody hashed it to the end",
		},
		"a package that only the killed one had": {
			func(e *evidence) { e.visits[5].pkg, e.visits[5].digest = "f", "F"; e.digests["f"] = "F" },
			"work", "c was lost: nobody hashed it to the end",
		},
		"a package hashed twice": {
			func(e *evidence) { e.visits[4].pkg, e.visits[4].digest = "d", "D" },
			"work", "d was hashed 2 times, by [dogwood ash]",
		},
		"a wrong hash": {
			func(e *evidence) { e.visits[1].digest = "X" },
			"work", `birch hashed b wrongly: "X"…, not "B"…`,
		},
		"a package that nobody should hash": {
			func(e *evidence) { delete(e.digests, "e") },
			"work", "ash hashed e, which was nobody's job",
		},
		"a victim that was not inside": {
			func(e *evidence) { e.visits[2].got = 0 },
			"victim", "cedar was not inside when it was killed",
		},
		"a permit that came back too late": {
			func(e *evidence) {
				for i := 4; i < 6; i++ {
					e.visits[i].got += 2 * time.Second
					e.visits[i].leaving += 2 * time.Second
				}
			},
			"victim", "the permit of cedar was in use again only at 2.652 s, must be by 1.800 s",
		},
		"a permit that never came back": {
			func(e *evidence) { e.visits[4].got = 900 * ms; e.visits[4].leaving = 950 * ms },
			"victim", "the permit of cedar was never in use again",
		},
		"a permit missing": {
			func(e *evidence) { e.free = 1 },
			"free", "1 permits are free at the end, must be 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := goodEvidence()
			test.spoil(&e)
			require.Contains(t, faultsOf(e)[test.check], test.fault)
		})
	}
}

// Requests that were under way at the same time may be served in either order.
func TestConcurrentRequestsHaveNoOrder(t *testing.T) {
	e := goodEvidence()
	e.visits[2].asked, e.visits[3].asked = e.visits[3].asked+ms, e.visits[2].asked-ms
	require.Empty(t, faultsOf(e))
}

// Whoever was cut off from Redis while it waited may be overtaken, nobody else.
func TestWhoIsCutOffMayBeOvertaken(t *testing.T) {
	e := goodEvidence()
	e.visits[2].fence, e.visits[3].fence = e.visits[3].fence, e.visits[2].fence // dogwood overtakes cedar
	e.gaps = []gap{{"dogwood", 10 * ms, 90 * ms}, {"cedar", 103 * ms, 200 * ms}}
	require.Contains(t, faultsOf(e), "order")
	e.gaps = append(e.gaps, gap{"cedar", 0, 5 * ms})
	require.Empty(t, faultsOf(e))
	require.Equal(t, "but for 1 that overtook a process which was cut off from Redis", checkOrder(e).note)
}

// A worker that lost its lease counts until the lease ended, not until it noticed;
// its job has to be done again.
func TestLostLease(t *testing.T) {
	e := goodEvidence()
	e.visits[3].left = false
	e.visits[3].deadline = 604 * ms
	require.Equal(t, map[string][]string{"work": {"d was lost: nobody hashed it to the end"}}, faultsOf(e))
}

func TestVisitsOf(t *testing.T) {
	records := []record{
		{Worker: "ash", Event: eventStarted, At: 1},
		{Worker: "ash", Event: eventAsked, Package: "a", At: 2},
		{Worker: "ash", Event: eventQueued, Package: "a", At: 3, Ticket: 7},
		{Worker: "ash", Event: eventGot, Package: "a", At: 4, Fence: 8, Deadline: 100},
		{Worker: "ash", Event: eventRenewed, Package: "a", At: 5, Deadline: 105},
		{Worker: "ash", Event: eventLeaving, Package: "a", At: 6, Digest: "A"},
		{Worker: "ash", Event: eventLeft, Package: "a", At: 7},
		{Worker: "ash", Event: eventAsked, Package: "b", At: 8},
		{Worker: "ash", Event: eventGot, Package: "b", At: 9, Fence: 9, Deadline: 109},
	}
	first := visit{worker: "ash", pkg: "a", asked: 2, queued: 3, got: 4, deadline: 105, leaving: 6, ended: 7,
		ticket: 7, fence: 8, digest: "A", left: true}
	second := visit{worker: "ash", pkg: "b", asked: 8, got: 9, deadline: 109, fence: 9}

	visits, err := visitsOf(records)
	require.NoError(t, err)
	require.Equal(t, []visit{first, second}, visits)

	for _, out := range []int{1, 3, 5} { // asked, got, leaving are missing
		spoiled := append(append([]record{}, records[:out]...), records[out+1:]...)
		_, err := visitsOf(spoiled)
		require.ErrorContains(t, err, "out of turn")
	}
}

// A request that is repeated counts from then on; what else is recorded is not
// part of a visit.
func TestVisitsOfTroubledWorker(t *testing.T) {
	records := []record{
		{Worker: "ash", Event: eventAsked, Package: "a", At: 2},
		{Worker: "ash", Event: eventQueued, Package: "a", At: 3, Ticket: 7},
		{Worker: "ash", Event: eventTrouble, Package: "a", At: 4, Text: "Redis is gone"},
		{Worker: "ash", Event: eventSilence, Package: "a", At: 5, Since: 1},
		{Worker: "ash", Event: eventAsked, Package: "a", At: 6},
		{Worker: "ash", Event: eventGot, Package: "a", At: 7, Fence: 8, Deadline: 100},
		{Worker: "ash", Event: eventLost, Package: "a", At: 200},
	}
	visits, err := visitsOf(records)
	require.NoError(t, err)
	require.Equal(t, []visit{{worker: "ash", pkg: "a", asked: 6, got: 7, deadline: 100, ended: 200, fence: 8}}, visits)
	require.Equal(t, []gap{{"ash", 1, 5}}, gapsOf(records))
}

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/crashtest"
)

// The judge is judged with records made by hand. Times are small numbers of seconds.

const second = int64(time.Second)

// court is a judge who hears records of a client and a child.
type court struct {
	*judge
	child int
}

func newCourt() court {
	j := newJudge(nil)
	j.source(false)
	return court{j, j.source(true)}
}

// hear takes records whose times are in seconds.
func (c court) hear(records ...record) {
	for _, r := range records {
		r.At *= second
		r.Until *= second
		c.pending = append(c.pending, r)
	}
}

// holds are the records of an operation on a semaphore that holds and leaves.
func holds(n int64, key string, asked, from, leaves, until int64, permits int, fence int64) []record {
	return about(n, "acquire", key,
		crashtest.Record{At: asked, Event: crashtest.Asked},
		crashtest.Record{At: from, Event: crashtest.Holds, Until: until, Permits: permits, Fence: fence},
		crashtest.Record{At: leaves, Event: crashtest.Leaving},
		crashtest.Record{At: leaves, Event: crashtest.Left})
}

func about(n int64, kind, key string, records ...crashtest.Record) (all []record) {
	for _, r := range records {
		r.Op = n
		class := ""
		switch r.Event {
		case crashtest.Lost:
			class = "not held"
		case crashtest.Failed:
			class = "redis failed"
		}
		all = append(all, record{Record: r, Key: key, Kind: kind, Class: class})
	}
	return all
}

// worksOn are the records of a delivery.
func worksOn(n int64, key, value string, at, fence int64, end crashtest.Event) []record {
	return about(n, "consume", key,
		crashtest.Record{At: at, Event: crashtest.Asked},
		crashtest.Record{At: at, Event: crashtest.Holds, Value: value, Fence: fence, Until: at},
		crashtest.Record{At: at, Event: crashtest.Leaving},
		crashtest.Record{At: at + 1, Event: end})
}

func signalled(n int64, key, value string) []record {
	return about(n, "signal", key,
		crashtest.Record{At: 1, Event: crashtest.Asked},
		crashtest.Record{At: 1, Event: crashtest.Signals, Values: []string{value}},
		crashtest.Record{At: 1, Event: crashtest.Signalled, Values: []string{value}},
		crashtest.Record{At: 1, Event: crashtest.Left})
}

func failed(n int64, kind, key, class string) []record {
	all := about(n, kind, key, crashtest.Record{At: 1, Event: crashtest.Asked}, crashtest.Record{At: 2, Event: crashtest.Failed, Err: class})
	all[1].Class = class
	return all
}

func lostEarly(n int64) []record {
	all := holds(n, "one", 1, 2, 3, 9, 1, 0)
	all[3].Event, all[3].Class = crashtest.Lost, "not held"
	return all
}

func TestJudge(t *testing.T) {
	value := valueOf(second, 0, 1, 0)
	for name, c := range map[string]struct {
		records [][]record
		wrong   string
	}{
		"one after the other":           {[][]record{holds(1, "one", 1, 1, 2, 9, 1, 5), holds(2, "one", 1, 3, 4, 9, 1, 6)}, ""},
		"two at once":                   {[][]record{holds(1, "one", 1, 1, 3, 9, 1, 5), holds(2, "one", 1, 2, 4, 9, 1, 6)}, "2 of 1 inside"},
		"the lease of the first ended":  {[][]record{holds(1, "one", 1, 1, 5, 2, 1, 5), holds(2, "one", 1, 3, 4, 9, 1, 6)}, ""},
		"ten of ten":                    {[][]record{holds(1, "ten", 1, 1, 3, 9, 4, 5), holds(2, "ten", 1, 2, 4, 9, 6, 6)}, ""},
		"eleven of ten":                 {[][]record{holds(1, "ten", 1, 1, 3, 9, 5, 5), holds(2, "ten", 1, 2, 4, 9, 6, 6)}, "11 of 10 inside"},
		"a lower fence, asked later":    {[][]record{holds(1, "one", 1, 1, 2, 9, 1, 6), holds(2, "one", 2, 3, 4, 9, 1, 5)}, "fence 5 was granted after 6"},
		"a lower fence, asked before":   {[][]record{holds(1, "ten", 1, 2, 4, 9, 1, 6), holds(2, "ten", 1, 3, 4, 9, 1, 5)}, ""},
		"lost before the lease's end":   {[][]record{lostEarly(1)}, "before the end of the lease"},
		"a job is done":                 {[][]record{signalled(1, jobs, value), worksOn(2, jobs, value, 3, 7, crashtest.Left)}, ""},
		"a job again after its loss":    {[][]record{signalled(1, jobs, value), worksOn(2, jobs, value, 3, 7, crashtest.Lost), worksOn(3, jobs, value, 5, 8, crashtest.Left)}, ""},
		"a job again after its Done":    {[][]record{signalled(1, jobs, value), worksOn(2, jobs, value, 3, 7, crashtest.Left), worksOn(3, jobs, value, 5, 8, crashtest.Left)}, "after its Done"},
		"a job that nobody signalled":   {[][]record{worksOn(2, jobs, value, 3, 7, crashtest.Left)}, "nobody signalled"},
		"at most once, again":           {[][]record{signalled(1, once, value), worksOn(2, once, value, 3, 7, crashtest.Lost), worksOn(3, once, value, 5, 8, crashtest.Left)}, "delivered 2 times"},
		"a job that is lost":            {[][]record{signalled(1, jobs, value)}, "job lost"},
		"a job that may be done":        {[][]record{signalled(1, jobs, value), worksOn(2, jobs, value, 3, 7, crashtest.Failed)}, ""},
		"at most once may be lost":      {[][]record{signalled(1, once, value)}, ""},
		"an error that may be":          {[][]record{failed(1, "try", "one", "not available")}, ""},
		"an error of no kind":           {[][]record{failed(1, "lock", "one", unknown)}, "must not end with this"},
		"an error of another operation": {[][]record{failed(1, "lock", "one", "not available")}, "must not end with this"},
		"a wait that is too long":       {[][]record{holds(1, "one", 1, 99, 100, 101, 1, 5)}, "answered after 1m38s"},
		"an operation without an end":   {[][]record{about(1, "lock", "one", crashtest.Record{At: 1, Event: crashtest.Asked})}, "has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			court := newCourt()
			court.end(court.child, 0)
			for _, r := range c.records {
				court.hear(r...)
			}
			court.settle()
			court.missing(jobs)
			court.stuck()
			requireWrong(t, c.wrong, court.judge)
		})
	}
}

// requireWrong expects one violation, which contains a text; none if that is empty.
func requireWrong(t *testing.T, text string, j *judge) {
	t.Helper()
	if text == "" {
		require.Empty(t, j.violations)
		return
	}
	require.Equal(t, 1, j.wrong, j.violations)
	require.Contains(t, j.violations[0].text, text)
}

// However late the records of a child come, they count.
func TestJudge_WaitsForAChild(t *testing.T) {
	c := newCourt()
	c.sources[c.child].mark = 0
	c.hear(holds(1, "one", 1, 2, 4, 9, 1, 5)...)
	c.settle()
	require.Len(t, c.pending, 4)

	late := holds(1, "one", 1, 3, 5, 9, 1, 6)
	for i := range late {
		late[i].Source = c.child
	}
	c.hear(late...)
	c.end(c.child, 10*second)
	c.settle()
	requireWrong(t, "2 of 1 inside", c.judge)
}

// What a child held when it was killed is protected until the end of the lease.
func TestJudge_TheLeaseOfTheDead(t *testing.T) {
	for from, wrong := range map[int64]string{4: "2 of 1 inside", 6: ""} {
		c := newCourt()
		dead := holds(1, "one", 1, 2, 0, 5, 1, 5)[:2]
		for i := range dead {
			dead[i].Source = c.child
		}
		c.hear(dead...)
		c.hear(holds(1, "one", 1, from, 7, 9, 1, 6)...)
		c.end(c.child, 3*second)
		c.settle()
		requireWrong(t, wrong, c.judge)
	}
}

// After a loss of data leases from before do not count; later ones do.
func TestJudge_ALossOfData(t *testing.T) {
	for fence, wrong := range map[int64]string{5: "", 25: "2 of 1 inside"} {
		c := newCourt()
		c.end(c.child, 0)
		c.limit = 3 * second
		c.lost(20)
		c.losses[0].to = 4 * second
		c.hear(holds(1, "one", 1, 2, 9, 9, 1, fence)...)
		c.hear(holds(2, "one", 1, 5, 7, 9, 1, 26)...)
		c.settle()
		requireWrong(t, wrong, c.judge)
	}
}

func TestGrowth(t *testing.T) {
	start := sample{goroutines: 10, connections: 3, heap: 1 << 20, memory: 1 << 20}
	require.Empty(t, start.growth(start))
	later := start
	later.goroutines += moreGoroutines + 1
	require.Len(t, start.growth(later), 1)
	later.heap += moreHeap + 1
	later.connections += moreConnections + 1
	later.memory += moreMemory + 1
	require.Len(t, start.growth(later), 4)
}

func TestHistogram(t *testing.T) {
	var h histogram
	require.Zero(t, h.quantile(0.5))
	for i := range 100 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	require.InEpsilon(t, float64(50*time.Millisecond), float64(h.quantile(0.5)), 0.11)
	require.InEpsilon(t, float64(99*time.Millisecond), float64(h.quantile(0.99)), 0.11)
	require.Equal(t, 100*time.Millisecond, h.longest)
}

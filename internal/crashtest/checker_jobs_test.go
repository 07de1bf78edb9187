package crashtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signal gives the records of a Signal.
func signal(n int64, confirmed bool, values ...string) []Record {
	records := []Record{{Op: n, Event: Signals, Values: values}}
	if confirmed {
		records = append(records, Record{Op: n, Event: Signalled, Values: values})
	}
	return records
}

// asked is a Wait that was not answered.
func asked(n int64) []Record { return []Record{{At: 1, Op: n, Event: Asked}} }

func TestCheckJobs(t *testing.T) {
	a := func(n, at, fence int64) []Record {
		return hold(n, at, at, at+1, 99, Record{Job: 1, Value: "a", Fence: fence})
	}
	b := func(n, at, fence int64) []Record {
		return hold(n, at, at, at+1, 99, Record{Job: 2, Value: "b", Fence: fence})
	}
	back := hold(1, 1, 1, 2, 99, Record{Job: 1, Value: "a", Fence: 10, Return: true})
	overlap := hold(3, 1, 1, 4, 99, Record{Job: 1, Value: "a", Fence: 10, Return: true})
	cut := hold(1, 1, 1, 0, 3, Record{Job: 1, Value: "a", Fence: 10})
	leaving := append(hold(1, 1, 1, 0, 3, Record{Job: 1, Value: "a", Fence: 10}), Record{At: 2 * second, Op: 1, Event: Leaving})
	both := signal(9, true, "a", "b")
	for name, c := range map[string]struct {
		lives []life
		once  bool
		wrong string
	}{
		"done":                              {[]life{alive(both, a(1, 1, 10), b(2, 1, 11))}, false, ""},
		"never delivered":                   {[]life{alive(both, a(1, 1, 10))}, false, "job b was not done"},
		"returned, not again":               {[]life{alive(signal(9, true, "a"), back)}, false, "job a was not done"},
		"returned, then done":               {[]life{alive(signal(9, true, "a"), back, a(2, 3, 11))}, false, ""},
		"consumer killed, not again":        {[]life{alive(signal(9, true, "a")), dead(cut)}, false, "job a was not done"},
		"consumer killed, then done":        {[]life{alive(signal(9, true, "a"), a(2, 4, 11)), dead(cut)}, false, ""},
		"again within the lease":            {[]life{alive(signal(9, true, "a"), a(2, 2, 11)), dead(cut)}, false, "2 of 1"},
		"killed in Done":                    {[]life{alive(signal(9, true, "a")), dead(leaving)}, false, ""},
		"again after Done":                  {[]life{alive(signal(9, true, "a"), a(1, 1, 10), a(2, 3, 11))}, false, "after it was done"},
		"two at once":                       {[]life{alive(signal(9, true, "a"), overlap, a(2, 2, 11))}, false, "2 of 1"},
		"never signalled":                   {[]life{alive(signal(9, true, "b"), a(1, 1, 10), b(2, 1, 11))}, false, "never signalled"},
		"in the queue twice":                {[]life{alive(signal(9, true, "b"), b(1, 1, 10), hold(2, 3, 3, 4, 99, Record{Job: 3, Value: "b", Fence: 11}))}, false, "came twice"},
		"killed in Signal, none came":       {[]life{dead(signal(9, false, "a", "b"))}, false, ""},
		"killed in Signal, all came":        {[]life{dead(signal(9, false, "a", "b")), alive(a(1, 1, 10), b(2, 1, 11))}, false, ""},
		"killed in Signal, one came":        {[]life{dead(signal(9, false, "a", "b")), alive(a(1, 1, 10))}, false, "of one signal 1 came"},
		"once, done":                        {[]life{alive(both, a(1, 1, 10), b(2, 1, 11))}, true, ""},
		"once, consumer killed":             {[]life{alive(signal(9, true, "a")), dead(cut)}, true, ""},
		"once, consumer killed, then again": {[]life{alive(signal(9, true, "a"), a(2, 4, 11)), dead(cut)}, true, "came twice"},
		"once, killed in Wait":              {[]life{alive(signal(9, true, "a")), dead(asked(1))}, true, ""},
		"once, lost":                        {[]life{alive(signal(9, true, "a"))}, true, "1 jobs are lost, of 0 at risk"},
	} {
		t.Run(name, func(t *testing.T) { requireWrong(t, c.wrong, checkJobs(c.lives, operations(c.lives), c.once)) })
	}
}

func TestCheckJobOrder(t *testing.T) {
	// Ids and fences are server times, µs.
	both := func(first, second int64) []life {
		return []life{alive(hold(1, 0, 1, 2, 9, Record{Job: 1e6, Value: "a", Fence: first}), hold(2, 0, 1, 2, 9, Record{Job: 2e6, Value: "b", Fence: second}))}
	}
	const late = int64(99e6)
	none := func() *watch { return watched(3 * time.Second) }
	seen := watched(3*time.Second, waiting(3, nil, nil, holder{token: token1, permits: 1, job: 1e6, fence: 28e5}))
	blind := watched(time.Second, waiting(1, nil, nil), waiting(9, nil, nil))
	requireWrong(t, "", checkJobOrder(operations(both(3e6, 4e6)), none(), late))
	requireWrong(t, "out of order", checkJobOrder(operations(both(4e6, 3e6)), none(), late))
	requireWrong(t, "", checkJobOrder(operations(both(4e6, 3e6)), seen, late))
	requireWrong(t, "", checkJobOrder(operations(both(4e6, 3e6)), blind, late))
	requireWrong(t, "", checkJobOrder(operations(both(4e6, 3e6)), none(), 2e6))
}

func TestRecoveries(t *testing.T) {
	const long = 3 * time.Second
	held := holder{token: "held", permits: 1, fence: 1e6, end: 4000, child: 3}
	w := watched(long, waiting(2, []string{token1}, []int64{15e5}, held), waiting(3, []string{token1}, []int64{15e5}, held))
	w.sights["held"].child = 3
	holder := life{child: 3, killed: 25e8}
	other := life{child: 4, killed: 3e9}
	next := func(fence int64) life {
		return life{child: 2, records: hold(1, 1, 5, 6, 99, Record{Token: token1, Fence: fence})}
	}
	find := func(lives ...life) []recovery { return recoveries(lives, operations(lives), w) }

	found := find(holder, next(45e5))
	require.Len(t, found, 1)
	require.Equal(t, 500*time.Millisecond, found[0].late)
	require.True(t, found[0].first)
	requireWrong(t, "", checkRecoveries(found))
	requireWrong(t, "after the end of the lease", checkRecoveries(find(holder, next(20e6))))
	require.Empty(t, find(next(45e5)), "the holder lives")
	require.Empty(t, find(life{child: 3, killed: 5e9}, next(45e5)), "it may have released")
	waiter := next(45e5)
	waiter.killed = 42e8
	require.Empty(t, find(holder, other, waiter), "nobody waited who lived")
	require.Empty(t, find(holder), "nobody was granted")
	require.Equal(t, "3: median 2ns, 99 % 3ns, max 3ns", spread([]time.Duration{3, 1, 2}))
}

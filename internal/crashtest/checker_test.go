package crashtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The checks are checked with records made by hand. Times are small numbers of seconds.

const (
	second = int64(time.Second)
	token1 = "t1"
	token2 = "t2"
)

// hold gives the records of an operation that holds and leaves, times in seconds.
func hold(n, asked, holds, leaving, until int64, r Record) []Record {
	r.At, r.Event, r.Until = holds*second, Holds, until*second
	if r.Permits == 0 {
		r.Permits = 1
	}
	records := []Record{{At: asked * second, Event: Asked}, r}
	if leaving != 0 {
		records = append(records, Record{At: leaving * second, Event: Leaving, Return: r.Return}, Record{At: leaving*second + 1, Event: Left})
	}
	for i := range records {
		records[i].Op = n
	}
	return records
}

// alive is a process that was not killed, dead one that was.
func alive(records ...[]Record) life { return life{child: 1, role: "test", records: join(records)} }
func dead(records ...[]Record) life {
	return life{child: 2, role: "test", killed: 1, records: join(records)}
}

func join(lists [][]Record) (all []Record) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// requireWrong expects the complaint to be the only one, and to contain a text; none if
// that is empty.
func requireWrong(t *testing.T, text string, wrong complaints) {
	t.Helper()
	if text == "" {
		require.Empty(t, wrong)
		return
	}
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0], text)
}

func TestCheckCapacity(t *testing.T) {
	for name, c := range map[string]struct {
		lives    []life
		capacity int
		wrong    string
	}{
		"one after the other":              {[]life{alive(hold(1, 0, 1, 2, 9, Record{}), hold(2, 0, 3, 4, 9, Record{}))}, 1, ""},
		"two at once":                      {[]life{alive(hold(1, 0, 1, 3, 9, Record{}), hold(2, 0, 2, 4, 9, Record{}))}, 1, "2 of 1"},
		"two at once of two":               {[]life{alive(hold(1, 0, 1, 3, 9, Record{}), hold(2, 0, 2, 4, 9, Record{}))}, 2, ""},
		"three of two by weight":           {[]life{alive(hold(1, 0, 1, 3, 9, Record{Permits: 2}), hold(2, 0, 2, 4, 9, Record{}))}, 2, "3 of 2"},
		"after the lease of the dead":      {[]life{dead(hold(1, 0, 1, 0, 5, Record{})), alive(hold(1, 0, 6, 7, 9, Record{}))}, 1, ""},
		"before the lease of the dead":     {[]life{dead(hold(1, 0, 1, 0, 5, Record{})), alive(hold(1, 0, 4, 7, 9, Record{}))}, 1, "2 of 1"},
		"after a renewal of the dead":      {[]life{dead(hold(1, 0, 1, 0, 5, Record{}), []Record{{At: 2 * second, Op: 1, Event: Renewed, Until: 7 * second}}), alive(hold(1, 0, 6, 7, 9, Record{}))}, 1, "2 of 1"},
		"after the lease of one that goes": {[]life{alive(hold(1, 0, 1, 7, 5, Record{}), hold(2, 0, 6, 8, 9, Record{}))}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) { requireWrong(t, c.wrong, checkCapacity(operations(c.lives), c.capacity)) })
	}
}

func TestCheckFences(t *testing.T) {
	for name, c := range map[string]struct {
		lives []life
		wrong string
	}{
		"increasing":                 {[]life{alive(hold(1, 0, 1, 2, 9, Record{Fence: 5}), hold(2, 2, 3, 4, 9, Record{Fence: 6}))}, ""},
		"either order at once":       {[]life{alive(hold(1, 0, 2, 3, 9, Record{Fence: 6}), hold(2, 1, 4, 5, 9, Record{Fence: 5}))}, ""},
		"lower, asked for later":     {[]life{alive(hold(1, 0, 1, 2, 9, Record{Fence: 6}), hold(2, 2, 3, 4, 9, Record{Fence: 5}))}, "do not increase"},
		"lower, the first died":      {[]life{dead(hold(1, 0, 1, 0, 9, Record{Fence: 6})), alive(hold(1, 2, 3, 4, 9, Record{Fence: 5}))}, "do not increase"},
		"the same, at the same time": {[]life{alive(hold(1, 0, 2, 3, 9, Record{Fence: 5}), hold(2, 1, 2, 3, 9, Record{Fence: 5}))}, "twice"},
	} {
		t.Run(name, func(t *testing.T) { requireWrong(t, c.wrong, checkFences(operations(c.lives))) })
	}
}

func TestCheckOutcomes(t *testing.T) {
	lost := func(at int64) []Record { return []Record{{At: at * second, Op: 1, Event: Lost}} }
	for name, c := range map[string]struct {
		lives []life
		wrong string
	}{
		"left":                      {[]life{alive(hold(1, 0, 1, 2, 9, Record{}))}, ""},
		"killed":                    {[]life{dead(hold(1, 0, 1, 0, 9, Record{}))}, ""},
		"no end":                    {[]life{alive(hold(1, 0, 1, 0, 9, Record{}))}, "no end"},
		"lost after the lease":      {[]life{alive(hold(1, 0, 1, 0, 5, Record{}), lost(6))}, ""},
		"lost in spite of a lease":  {[]life{alive(hold(1, 0, 1, 0, 5, Record{}), lost(4))}, "before the end of the lease"},
		"failed":                    {[]life{alive([]Record{{Op: 1, Event: Asked}, {Op: 1, Event: Failed, Err: "out of order"}})}, "out of order"},
		"failed before it was dead": {[]life{dead([]Record{{Op: 1, Event: Asked}, {Op: 1, Event: Failed}})}, "failed"},
	} {
		t.Run(name, func(t *testing.T) { requireWrong(t, c.wrong, checkOutcomes(operations(c.lives))) })
	}
}

// waiting is a reading at a server time (s) of tokens in the queue and holders.
func waiting(at int64, tokens []string, tickets []int64, holders ...holder) reading {
	r := reading{server: at * 1e6, exists: true, capacity: len(holders), leases: len(holders), holders: holders, tickets: tickets}
	for _, token := range tokens {
		r.waiters = append(r.waiters, token+" 1 1000 client 2")
	}
	return r
}

// watched is what a watcher sees that reads at these times; its clock is the server's.
func watched(window time.Duration, readings ...reading) *watch {
	w := newWatch("key", false, window)
	for _, r := range readings {
		w.see(r, r.server*1000)
	}
	return w
}

func TestCheckOrder(t *testing.T) {
	const long = 3 * time.Second
	tickets := []int64{1e6, 2e6}
	both := waiting(2, []string{token1, token2}, tickets)
	// Fences are server times, µs.
	grants := func(first, second int64) []life {
		return []life{alive(hold(1, 0, 9, 10, 99, Record{Token: token1, Fence: first}), hold(2, 0, 9, 10, 99, Record{Token: token2, Fence: second}))}
	}
	for name, c := range map[string]struct {
		lives []life
		watch *watch
		wrong string
	}{
		"in order":            {grants(5e6, 6e6), watched(long, both), ""},
		"out of order":        {grants(6e6, 5e6), watched(long, both), "follow tickets"},
		"granted before":      {grants(6e6, 5e6), watched(long, both, waiting(3, []string{token2}, tickets[1:], holder{token: token1, fence: 25e5, permits: 1}), both), ""},
		"its place was lost":  {grants(6e6, 5e6), watched(long, both, waiting(3, []string{token2}, tickets[1:])), ""},
		"gone after it held":  {grants(6e6, 5e6), watched(long, both, waiting(4, []string{token1, token2}, tickets), waiting(6, nil, nil)), "follow tickets"},
		"nobody was looking":  {grants(6e6, 5e6), watched(long, both, waiting(5, []string{token1, token2}, tickets)), ""},
		"seen with dead ones": {grants(6e6, 7e6), watched(long, waiting(2, []string{"dead", token1}, []int64{5e5, 1e6}), waiting(3, []string{token1}, []int64{1e6}, holder{token: "dead", fence: 65e5, permits: 1})), "follow tickets"},
		"overtaken by one that asked later": {[]life{alive(hold(1, 0, 9, 10, 99, Record{Token: token1, Fence: 6e6}), hold(2, 3, 4, 5, 99, Record{Token: "t3", Fence: 4e6}))},
			watched(long, both), "overtaken"},
		"another asked before": {[]life{alive(hold(1, 0, 9, 10, 99, Record{Token: token1, Fence: 6e6}), hold(2, 1, 4, 5, 99, Record{Token: "t3", Fence: 4e6}))},
			watched(long, both), ""},
	} {
		t.Run(name, func(t *testing.T) { requireWrong(t, c.wrong, checkOrder(operations(c.lives), c.watch)) })
	}
}

func TestCheckReadings(t *testing.T) {
	good := holder{token: token1, permits: 2}
	requireWrong(t, "", reading{exists: true, capacity: 3, free: 1, leases: 1, holders: []holder{good}}.check())
	requireWrong(t, "2 held and 2 free of 3", reading{exists: true, capacity: 3, free: 2, leases: 1, holders: []holder{good}}.check())
	requireWrong(t, "2 held and 0 free of 3", reading{exists: true, capacity: 3, leases: 1, holders: []holder{good}}.check())
	requireWrong(t, "0 leases of 1", reading{exists: true, capacity: 2, holders: []holder{good}}.check())

	requireWrong(t, "", reading{exists: true, capacity: 3, free: 3}.checkEmpty(3))
	requireWrong(t, "", reading{}.checkEmpty(3))
	requireWrong(t, "left", reading{exists: true, capacity: 3, free: 1, leases: 1, holders: []holder{good}}.checkEmpty(3))
	requireWrong(t, "left", reading{exists: true, capacity: 3, free: 3, waiters: []string{token2}}.checkEmpty(3))
	requireWrong(t, "left", reading{exists: true, capacity: 2, free: 2}.checkEmpty(3))
	requireWrong(t, "left", reading{exists: true, capacity: 1, free: 1}.checkEmpty(0))

	w := watched(time.Second, waiting(1, []string{token1}, []int64{5}), waiting(2, []string{token1}, []int64{6}))
	requireWrong(t, "has ticket 6, had 5", w.wrong)
}

func TestReadLogIgnoresATornLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := OpenLog(path)
	require.NoError(t, err)
	want := []Record{{At: 1, Event: Asked, Op: 1}, {At: 2, Event: Holds, Op: 1, Token: token1, Fence: 7, Permits: 1, Until: 9}}
	for _, r := range want {
		require.NoError(t, log.Write(r))
	}
	_, err = log.file.WriteString(`{"At":3,"Ev`)
	require.NoError(t, err)
	require.NoError(t, log.file.Close())
	records, err := ReadLog(path)
	require.NoError(t, err)
	require.Equal(t, want, records)

	require.NoError(t, os.WriteFile(path, []byte("torn\n{}\n"), 0o600))
	_, err = ReadLog(path)
	require.Error(t, err)
}

func TestClockIsThatOfTime(t *testing.T) {
	in := time.Now().Add(time.Minute)
	require.InDelta(t, float64(Clock()+int64(time.Minute)), float64(ClockAt(in)), float64(10*time.Second))
	require.LessOrEqual(t, ClockAt(time.Now()), Clock())
}

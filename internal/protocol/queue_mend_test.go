package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var queueSuffixes = append([]string{"jobs", "expiries"}, suffixes...)

// newQueueFixture is a queue of one test, in the hands of process p1.
func newQueueFixture(t *testing.T) *fixture {
	f := newFixture(t, 0)
	f.Kind, f.Keys = Queue, NewKeys(Queue, t.Name())
	return f
}

// signal adds jobs.
func (f *fixture) signal(life time.Duration, jobs ...string) {
	f.t.Helper()
	_, outcome, _, err := f.Signal(f.t.Context(), Call{Name: fmt.Sprint(jobs)}, life, jobs)
	require.NoError(f.t, err)
	require.Equal(f.t, Granted, outcome)
}

// work takes the first job.
func (f *fixture) work(token string) Job {
	f.t.Helper()
	a, err := f.Acquire(f.t.Context(), waiter(token, 1), false, 0, false)
	require.NoError(f.t, err)
	require.Equal(f.t, Granted, a.Outcome)
	return a.Job
}

// brokenQueue says what a state lacks to be whole.
func brokenQueue(s state) []string {
	var flaws []string
	flaw := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	if s.Version != "1-queue" {
		flaw("version %q", s.Version)
	}
	places := make(map[string]int) // of each job
	for _, member := range s.Ready {
		id, _, _ := strings.Cut(member, " ")
		places[id]++
	}
	for token, r := range s.Locked {
		id, _, _, ok := HeldJob(r.Owner)
		if !ok || r.N != 1 || s.Leases[token] != r.End {
			flaw("%s holds %+v until %d", token, r, s.Leases[token])
		}
		places[itoa(id)]++
	}
	if len(s.Leases) != len(s.Locked) {
		flaw("%d leases, %d records", len(s.Leases), len(s.Locked))
	}
	for id, n := range places {
		if _, ok := s.Jobs[id]; !ok || n != 1 {
			flaw("job %s is in %d places, content %v", id, n, ok)
		}
		if number(id) > number(s.Name["seq"]) {
			flaw("job %s after number %s", id, s.Name["seq"])
		}
	}
	for id := range s.Jobs {
		if places[id] == 0 {
			flaw("job %s is in no place", id)
		}
	}
	for what, content := range s.Foreign {
		flaw("foreign %s: %s", what, content)
	}
	return flaws
}

// queueSteps take each step once.
var queueSteps = map[string]func(f *fixture) error{
	"signal": func(f *fixture) error {
		_, _, _, err := f.Signal(f.t.Context(), Call{Name: "new"}, 0, []string{"new"})
		return err
	},
	"acquire": func(f *fixture) error {
		_, err := f.Acquire(f.t.Context(), waiter("new", 1), true, 0, false)
		return err
	},
	"fetch": func(f *fixture) error {
		_, _, _, err := f.Fetch(f.t.Context(), "x", testLease)
		return err
	},
	"release": func(f *fixture) error {
		_, _, _, err := f.Release(f.t.Context(), "x", "call")
		return err
	},
	"renew": func(f *fixture) error {
		_, _, err := f.Renew(f.t.Context(), []Renewal{{"x", testLease}})
		return err
	},
	"leave": func(f *fixture) error {
		_, err := f.Leave(f.t.Context(), []Waiter{waiter("y", 1)})
		return err
	},
	"tend": func(f *fixture) error {
		_, err := f.Tend(f.t.Context(), Tending{Waiting: true, Look: []Waiter{waiter("x", 1)}})
		return err
	},
	"status": func(f *fixture) error {
		_, _, _, _, err := f.Status(f.t.Context(), "x")
		return err
	},
	"inspect": func(f *fixture) error {
		_, err := f.Inspect(f.t.Context(), 10)
		return err
	},
	"reclaim": func(f *fixture) error {
		_, _, err := f.Reclaim(f.t.Context())
		return err
	},
}

// someJobs makes a queue with jobs in every place.
func someJobs(t *testing.T) *fixture {
	f := newQueueFixture(t)
	f.signal(0, "a", "b", "c")
	f.signal(time.Hour, "d")
	require.Equal(t, "a", f.work("x").Content)
	require.Equal(t, "b", f.work("y").Content)
	return f
}

// drain hands out and ends all jobs that are left, and answers their contents.
func (f *fixture) drain() (contents []string) {
	f.t.Helper()
	for token := range f.dump().Locked {
		_, _, job, err := f.Fetch(f.t.Context(), token, testLease)
		require.NoError(f.t, err)
		contents = append(contents, job.Content)
		_, held, _, err := f.Finish(f.t.Context(), token, "drain")
		require.NoError(f.t, err)
		require.True(f.t, held)
	}
	for i := 0; ; i++ {
		require.Less(f.t, i, 5000, "there is no end of jobs")
		token := fmt.Sprint("drain", i)
		a, err := f.Acquire(f.t.Context(), waiter(token, 1), false, 0, false)
		require.NoError(f.t, err)
		if a.Outcome != Granted {
			break
		}
		contents = append(contents, a.Job.Content)
		_, _, _, err = f.Finish(f.t.Context(), token, "drain")
		require.NoError(f.t, err)
	}
	s := f.dump()
	require.Zero(f.t, len(s.Jobs)+len(s.Ready)+len(s.Locked)+len(s.Leases))
	return contents
}

// Whatever key is lost, the next step makes the queue whole; no job is lost whose
// content is not, and those in the hands of consumers stay there.
func TestQueueMend_AfterTheLossOfAnyKeys(t *testing.T) {
	for _, first := range queueSuffixes {
		for _, second := range queueSuffixes {
			for step, run := range queueSteps {
				t.Run(cmp.Or(first, "name")+" "+cmp.Or(second, "name")+" "+step, func(t *testing.T) {
					f := someJobs(t)
					before := f.dump()
					f.do("DEL", f.key(first), f.key(second))
					require.NoError(t, run(f))
					if step == "release" { // of what is not held, it seems, changes nothing
						require.NoError(t, queueSteps["status"](f))
					}
					if first == "jobs" || second == "jobs" {
						require.NoError(t, queueSteps["tend"](f))
						require.Empty(t, brokenQueue(f.dump()))
						return
					}
					after := f.dump()
					require.Empty(t, brokenQueue(after))
					require.True(t, slices.IsSorted(after.Ready))
					if first != "locked" && second != "locked" {
						for token, r := range before.Locked {
							if token == "x" && (step == "release" || step == "fetch" || step == "renew") || token == "y" && step == "leave" {
								continue
							}
							require.Equal(t, r, after.Locked[token])
						}
					}
					want := []string{"a", "b", "c", "d"}
					if step == "signal" {
						want = append(want, "new")
					}
					require.Subset(t, append(f.drain(), ""), want)
				})
			}
		}
	}
}

func TestQueueMend_ForeignElements(t *testing.T) {
	for name, command := range map[string][]any{
		"jobs: no id":            {"HSET", "jobs", "x", "y", "", "z", "007", "bond", "-1", "", "1.5", "", "99999999999999999999", ""},
		"jobs: one more":         {"HSET", "jobs", "5", "five"},
		"ready: no id":           {"ZADD", "available", 1, "x", 2, "", 3, "y z a"},
		"ready: no job":          {"ZADD", "available", 1, "1 0 0", 5, "5 7 7"},
		"ready: wrong score":     {"ZADD", "available", 1, "2 0 0"},
		"locked: unreadable":     {"HSET", "locked", "z", "1 2 3"},
		"locked: no job":         {"HSET", "locked", "z", "1 4000000000000 1 1 17 0 0 0 o"},
		"locked: several":        {"HSET", "locked", "z", "3 4000000000000 1 1 17 0 0 0 o"},
		"leases: in the past":    {"ZADD", "leases", 1, "z"},
		"leases: in the future":  {"ZADD", "leases", 4_000_000_000_000, "z"},
		"expiries: no id":        {"ZADD", "expiries", 1, "x", 2, "", 3, "12 3"},
		"expiries: of no job":    {"ZADD", "expiries", 1, "1", 4_000_000_000_000, "2"},
		"queue: unreadable":      {"ZADD", "queue", 1, "x", 2, ""},
		"queue: of nobody":       {"ZADD", "queue", 1, "z 1 60000 nobody o"},
		"clients":                {"ZADD", "clients", "inf", "x", "-inf", "y"},
		"released":               {"RPUSH", "released", "x", "y"},
		"name: garbage":          {"HSET", "", "seq", "x", "ttl", "-1", "fresh", "inf", "late", "y", "lasting", "z"},
		"name: no numbers":       {"HSET", "", "seq", "inf", "ttl", "1e300", "fresh", "1e300", "late", "inf", "lasting", "inf"},
		"name: negative":         {"HSET", "", "seq", "-7", "ttl", "-7", "fresh", "-7", "late", "-7", "lasting", "-7"},
		"name: fractions":        {"HSET", "", "seq", "1.5", "ttl", "1.5", "fresh", "1.5", "late", "1.5", "lasting", "1.5"},
		"name: a number to come": {"HSET", "", "seq", "9007199254740993"},
	} {
		for step, run := range queueSteps {
			t.Run(name+" "+step, func(t *testing.T) {
				f := someJobs(t)
				f.do(command[0].(string), append([]any{f.key(command[1].(string))}, command[2:]...)...)
				require.NoError(t, run(f))
				require.NoError(t, queueSteps["tend"](f))
				require.Empty(t, brokenQueue(f.dump()))
				got := f.drain()
				if name == "queue: of nobody" { // it had its turn
					got = append(got, "a", "b", "c", "d")
				}
				require.Subset(t, append(got, "a", "b"), []string{"a", "b", "c", "d"})
			})
		}
	}
}

// The step that mends answers what is so then.
func TestQueueMend_AnswersWhatIsThere(t *testing.T) {
	for _, lost := range []string{"available", "locked", "leases"} {
		f := someJobs(t)
		f.do("DEL", f.key(lost))
		f.do("HSET", f.key("jobs"), "x", "y")
		f.do("ZADD", f.key("expiries"), 1, "12345")
		_, free, capacity, _, err := f.Status(t.Context(), "")
		require.NoError(t, err)
		s := f.dump()
		assert.Equal(t, []int{len(s.Ready), len(s.Jobs)}, []int{int(free), int(capacity)}, lost)
		assert.Equal(t, 4, len(s.Jobs), lost)
		f.deleteAll()
	}
}

// A record in the way of the job that it stood for is ended with its lease.
func TestQueueMend_ARecordThatWasOverwrittenLosesNoJob(t *testing.T) {
	for step, run := range queueSteps {
		t.Run(step, func(t *testing.T) {
			f := someJobs(t)
			f.do("HSET", f.key("locked"), "x", "x")
			require.NoError(t, run(f))
			f.do("ZADD", f.key("leases"), 1, "x")
			require.NoError(t, run(f))
			require.NoError(t, queueSteps["status"](f))
			require.Empty(t, brokenQueue(f.dump()))
			require.Subset(t, append(f.drain(), "b"), []string{"a", "b", "c", "d"})
		})
	}
}

// The counts are right, and yet the first job has no content.
func TestQueueMend_AJobWithoutContentIsSkipped(t *testing.T) {
	f := newQueueFixture(t)
	f.signal(0, "a", "b")
	ids := slices.Sorted(maps.Keys(f.dump().Jobs))
	f.do("HDEL", f.key("jobs"), ids[0])
	f.do("HSET", f.key("jobs"), "5", "five")
	require.Equal(t, "five", f.work("x").Content)
	require.Equal(t, "b", f.work("y").Content)
	require.Empty(t, brokenQueue(f.dump()))
}

func TestQueueMend_AHeldJobWithoutContentIsNotHandedOver(t *testing.T) {
	f := newQueueFixture(t)
	f.signal(0, "a")
	f.work("x")
	f.do("DEL", f.key("jobs"))
	f.do("HSET", f.key("jobs"), "5", "five")
	_, end, job, err := f.Fetch(t.Context(), "x", testLease)
	require.NoError(t, err)
	assert.Zero(t, end)
	assert.Equal(t, Job{}, job)
	require.Equal(t, "five", f.work("y").Content)
	f.do("DEL", f.key("jobs"))
	f.do("HSET", f.key("jobs"), "6", "six")
	a, err := f.Acquire(t.Context(), waiter("y", 1), false, 0, true)
	require.NoError(t, err)
	assert.Equal(t, Void, a.Outcome, "it is sent again")
	assert.Equal(t, "six", f.work("y").Content)
	require.Empty(t, brokenQueue(f.dump()))
}

// The clock was set back, and the name is gone: what is there tells the last number.
func TestQueueMend_NumbersIncreaseThoughTheNameIsLost(t *testing.T) {
	for _, last := range []string{"job", "fence", "ticket"} {
		t.Run(last, func(t *testing.T) {
			f := newQueueFixture(t)
			f.at(2_000_000_000)
			f.signal(0, "a")
			a, err := f.Acquire(t.Context(), waiter("x", 1), false, 0, false)
			require.NoError(t, err)
			number := a.Fence
			switch last {
			case "job":
				f.signal(0, "b")
				number++
			case "ticket":
				b, err := f.as("p2").Acquire(t.Context(), waiter("y", 1), true, 0, false)
				require.NoError(t, err)
				number = b.Ticket
			}
			f.at(1_999_990_000)
			f.do("DEL", f.key(""))
			f.signal(0, "c", "d")
			for token, r := range f.dump().Locked {
				if token != "x" {
					assert.Greater(t, r.Fence, number)
				}
			}
			for id, content := range f.dump().Jobs {
				if content == "c" || content == "d" {
					assert.Greater(t, idNumber(t, id), number)
				}
			}
		})
	}
}

func idNumber(t *testing.T, id string) int64 {
	n, err := strconv.ParseInt(id, 10, 64)
	require.NoError(t, err)
	return n
}

package protocol

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

// testLease is the lease of the waiters in the tests: none ends by itself.
const testLease = time.Minute

// fixture is a semaphore of one test. The steps that it sends by its methods are
// those of process p1; after each, the semaphore must be whole.
type fixture struct {
	Steps
	t    *testing.T
	conn redis.Conn // to look and to meddle
}

func newFixture(t *testing.T, capacity int) *fixture {
	conn := pool.Get()
	t.Cleanup(func() { conn.Close() })
	return newFixtureOn(t, capacity, client, conn)
}

// newFixtureOn is newFixture on any server.
func newFixtureOn(t *testing.T, capacity int, client redisadapter.Redis, conn redis.Conn) *fixture {
	f := &fixture{
		Steps: Steps{Client: client, Keys: NewKeys(Semaphore, t.Name()), Process: "p1", Capacity: capacity, Lease: testLease},
		t:     t,
		conn:  conn,
	}
	t.Cleanup(f.deleteAll)
	return f
}

// deleteAll removes every key, as a flush does.
func (f *fixture) deleteAll() {
	f.t.Helper()
	_, l := f.read()
	for key := range l.ttl {
		f.do("DEL", key)
	}
}

// as is the fixture in the hands of another process.
func (f *fixture) as(process string) *fixture {
	other := *f
	other.Process = process
	return &other
}

// key is a key of the semaphore by its suffix, "" for the name.
func (f *fixture) key(suffix string) string {
	if suffix == "" {
		return f.Keys.Name()
	}
	return f.Keys.Name() + ":" + suffix
}

// do sends a command.
func (f *fixture) do(command string, args ...any) any {
	f.t.Helper()
	reply, err := f.conn.Do(command, args...)
	require.NoError(f.t, err, command)
	return reply
}

func waiter(token string, n int) Waiter {
	return Waiter{Token: token, Permits: n, Lease: testLease, Owner: "host/1"}
}

// ask sends an acquire that may queue.
func (f *fixture) ask(w Waiter) Acquired {
	f.t.Helper()
	a, err := f.Acquire(context.Background(), w, true, 0, false)
	require.NoError(f.t, err)
	f.check()
	return a
}

// acquire takes permits, that must be free.
func (f *fixture) acquire(token string, n int) Acquired {
	f.t.Helper()
	a := f.ask(waiter(token, n))
	require.Equal(f.t, Granted, a.Outcome)
	return a
}

// queue takes a place in the queue.
func (f *fixture) queue(token string, n int) Acquired {
	f.t.Helper()
	a := f.ask(waiter(token, n))
	require.Equal(f.t, Queued, a.Outcome)
	return a
}

// try asks without waiting.
func (f *fixture) try(token string, n int) Acquired {
	f.t.Helper()
	a, err := f.Acquire(context.Background(), waiter(token, n), false, 0, false)
	require.NoError(f.t, err)
	f.check()
	return a
}

// released is the answer of a release.
type released struct {
	Header
	held bool
	free int64
}

func (f *fixture) release(token, call string) released {
	f.t.Helper()
	h, held, free, err := f.Release(context.Background(), token, call)
	require.NoError(f.t, err)
	f.check()
	return released{h, held, free}
}

func (f *fixture) renew(renewals ...Renewal) (Header, []int64) {
	f.t.Helper()
	h, ends, err := f.Renew(context.Background(), renewals)
	require.NoError(f.t, err)
	f.check()
	return h, ends
}

func (f *fixture) leave(waiters ...Waiter) Header {
	f.t.Helper()
	h, err := f.Leave(context.Background(), waiters)
	require.NoError(f.t, err)
	f.check()
	return h
}

func (f *fixture) tend(t Tending) Tended {
	f.t.Helper()
	answer, err := f.Tend(context.Background(), t)
	require.NoError(f.t, err)
	f.check()
	return answer
}

// status answers what Status does.
func (f *fixture) status(token string) (free, capacity int64, held bool) {
	f.t.Helper()
	_, free, capacity, held, err := f.Status(context.Background(), token)
	require.NoError(f.t, err)
	f.check()
	return free, capacity, held
}

// endLease makes the lease of a token end in the past.
func (f *fixture) endLease(token string) {
	f.t.Helper()
	r := f.dump().Locked[token]
	r.End = 1
	f.seed(token, r)
}

// seed writes a record and its lease.
func (f *fixture) seed(token string, r record) {
	f.t.Helper()
	f.do("HSET", f.key("locked"), token, itoa(r.N)+" "+itoa(r.End)+" "+itoa(r.Fence)+" "+itoa(r.Since)+" "+r.Owner)
	f.do("ZADD", f.key("leases"), r.End, token)
}

// seedEnded adds n holders whose leases have ended; so many permits must be free.
func (f *fixture) seedEnded(n int) {
	f.t.Helper()
	for i := range n {
		f.seed("ended"+itoa(int64(i)), record{1, 1, int64(i + 1), 1, "o"})
	}
	f.do("HINCRBY", f.key(""), "held", n)
	f.do("LPOP", f.key("available"), n)
}

// kill makes a process one that has lately failed to say that it lives.
func (f *fixture) kill(process string) {
	f.t.Helper()
	_, l := f.read()
	f.do("ZADD", f.key("clients"), "XX", l.now-1000, process)
}

// goLong makes the next step take the long way: the keys need a new life.
func (f *fixture) goLong() {
	f.t.Helper()
	f.do("HSET", f.key(""), "fresh", 1)
}

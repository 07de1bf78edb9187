package luaredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

var pool *redis.Pool

func TestMain(m *testing.M) {
	os.Exit(func() int {
		server, err := redistest.New()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		pool = redistest.NewPool(server.Addr, 0)
		code := m.Run()
		pool.Close()
		server.Close()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// twin runs each script on the model and on a real server, and compares what they
// answer, and what they have then. Both have the same clock.
type twin struct {
	t     *testing.T
	model *Server
	real  redisadapter.Redis
	conn  redis.Conn
	now   time.Time
	base  string // all keys begin with this
}

func newTwin(t *testing.T, base string) *twin {
	w := &twin{t: t, model: New(), real: redigoadapter.New(pool), conn: pool.Get(), base: base, now: time.Now()}
	t.Cleanup(func() { w.model.Close(); w.conn.Close() })
	return w
}

// Eval sends the real server the clock's reading as two more keys.
func (w *twin) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	expected, expectedErr := w.model.Eval(w.now, script, keys, args)
	us := w.now.UnixMicro()
	timed := redisadapter.NewScript("local clock_ = {KEYS[#KEYS - 1], KEYS[#KEYS]}\n" +
		strings.ReplaceAll(script.Source(), "redis.call('TIME')", "clock_"))
	keys = append(slices.Clone(keys), strconv.FormatInt(us/1_000_000, 10), strconv.FormatInt(us%1_000_000, 10))
	got, err := w.real.Eval(ctx, timed, keys, args)
	require.Equal(w.t, code(err), code(expectedErr))
	require.Equal(w.t, plain(got), plain(expected), "%v\n%s", args, script.Source())
	w.compare()
	return got, err
}

func (w *twin) BLPop(context.Context, string, time.Duration) (string, bool, error) {
	return "", false, errors.ErrUnsupported
}

// code is the first word of an error reply.
func code(err error) string {
	var reply *redisadapter.ReplyError
	if errors.As(err, &reply) {
		return reply.Prefix()
	}
	return fmt.Sprint(err)
}

// plain is a reply that can be compared.
func plain(reply any) any {
	switch v := reply.(type) {
	case []byte:
		return string(v)
	case []any:
		all := make([]any, len(v))
		for i, element := range v {
			all[i] = plain(element)
		}
		return all
	default:
		return v
	}
}

var readers = map[string][]string{
	"string": {"GET"}, "list": {"LRANGE", "0", "-1"}, "hash": {"HGETALL"}, "zset": {"ZRANGE", "0", "-1", "WITHSCORES"},
}

// compare checks that both have the same.
func (w *twin) compare() {
	names, err := redis.Strings(w.conn.Do("KEYS", w.base+"*"))
	require.NoError(w.t, err)
	require.ElementsMatch(w.t, names, w.model.Keys(w.now))
	for _, name := range names {
		kind, err := redis.String(w.conn.Do("TYPE", name))
		require.NoError(w.t, err)
		reader := readers[kind]
		got, err := w.conn.Do(reader[0], append([]any{name}, anyOf(reader[1:])...)...)
		require.NoError(w.t, err)
		expected, err := w.model.Do(w.now, reader[0], append([]string{name}, reader[1:]...)...)
		require.NoError(w.t, err)
		if kind == "hash" { // its order is free
			require.Equal(w.t, fields(plain(got)), fields(expected), name)
		} else {
			require.Equal(w.t, plain(got), plain(expected), name)
		}
		ttl, err := redis.Int64(w.conn.Do("PTTL", name))
		require.NoError(w.t, err)
		modelled, err := w.model.Do(w.now, "PTTL", name)
		require.NoError(w.t, err)
		require.Equal(w.t, ttl > 0, modelled.(int64) > 0, "%s lives for %d and %d ms", name, ttl, modelled)
	}
}

func fields(reply any) map[string]string {
	all, _ := reply.([]any)
	m := make(map[string]string)
	for i := 0; i+1 < len(all); i += 2 {
		m[all[i].(string)] = all[i+1].(string)
	}
	return m
}

func TestModelDoesWhatRedisDoes(t *testing.T) {
	for _, kind := range []protocol.Kind{protocol.Semaphore, protocol.Queue} {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, uint64(kind)))
			keys := protocol.NewKeys(kind, fmt.Sprintf("%s %d %d", t.Name(), kind, seed))
			w := newTwin(t, keys.Name())
			s := protocol.Steps{Kind: kind, Client: w, Keys: keys, Capacity: 1 + r.IntN(4), Lease: time.Hour}
			if kind == protocol.Queue {
				s.Capacity = 0
			}
			for range 60 {
				w.pass(time.Duration(r.Int64N(int64(20 * time.Second))))
				s.Process = fmt.Sprint("p", r.IntN(3))
				w.any(r, s)
			}
		}
	}
}

// pass lets time pass. The real server, for which there is less of it, is told what
// has expired.
func (w *twin) pass(d time.Duration) {
	before := slices.Collect(maps.Keys(w.model.data))
	w.now = w.now.Add(d)
	left := w.model.Keys(w.now)
	for _, name := range before {
		if !slices.Contains(left, name) {
			_, err := w.conn.Do("DEL", name)
			require.NoError(w.t, err)
		}
	}
}

// any takes a step, or meddles.
func (w *twin) any(r *rand.Rand, s protocol.Steps) {
	ctx := context.Background()
	waiter := func() protocol.Waiter {
		return protocol.Waiter{Token: fmt.Sprint("t", r.IntN(12)), Permits: 1 + r.IntN(2)*(1-int(s.Kind)), Lease: time.Minute, Owner: "o o"}
	}
	call := protocol.Call{Name: fmt.Sprint("c", r.IntN(1000)), Repeated: r.IntN(3) == 0}
	if r.IntN(4) == 0 {
		call.VoidAfter = w.now.UnixMilli() + r.Int64N(4000) - 1000
	}
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		a := waiter()
		s.Acquire(ctx, a, r.IntN(3) > 0, call.VoidAfter, call.Repeated)
	case 4, 5:
		s.Release(ctx, waiter().Token, fmt.Sprint("r", r.IntN(5)))
	case 6:
		s.Renew(ctx, []protocol.Renewal{{Token: waiter().Token, Lease: time.Minute}, {Token: "none", Lease: time.Minute}})
	case 7:
		t := protocol.Tending{Waiting: r.IntN(4) > 0, Look: []protocol.Waiter{waiter()}, Renew: []protocol.Renewal{{Token: waiter().Token, Lease: time.Minute}}}
		if r.IntN(3) == 0 {
			t.Requeue = []protocol.Queueing{{Waiter: waiter(), Ticket: w.now.UnixMicro() - r.Int64N(1e8)}}
			t.Leave = []protocol.Waiter{waiter()}
		}
		s.Tend(ctx, t)
	case 8:
		s.Leave(ctx, []protocol.Waiter{waiter()})
	case 9:
		s.Status(ctx, waiter().Token)
		s.Inspect(ctx, 10)
		s.Reclaim(ctx)
	case 10:
		if s.Kind == protocol.Queue {
			s.Signal(ctx, call, time.Duration(r.IntN(2))*time.Minute, []string{"a", "b", fmt.Sprint(r.IntN(100))})
			s.Fetch(ctx, waiter().Token, time.Minute)
		} else {
			s.Resize(ctx, call, r.IntN(6)-1, r.IntN(2) == 0)
		}
	case 11:
		w.meddle(r, s, call)
	}
}

// meddle deletes all, or one key, or puts something of another type in its place.
func (w *twin) meddle(r *rand.Rand, s protocol.Steps, call protocol.Call) {
	names := slices.Sorted(maps.Keys(w.model.data))
	if r.IntN(2) == 0 || len(names) == 0 {
		s.Delete(context.Background(), call)
		return
	}
	name := names[r.IntN(len(names))]
	_, err := w.conn.Do("DEL", name)
	require.NoError(w.t, err)
	w.model.Delete(name)
}

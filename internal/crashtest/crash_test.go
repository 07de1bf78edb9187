package crashtest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

var (
	kills = flag.Int("kills", 400, "kill so many processes")
	seed  = flag.Uint64("seed", 0, "of the random choices; 0: any")
)

// kind is what a key is used for. In the course of the test each kind has several keys,
// one after the other: on one that has seen many deaths little goes on for a while.
type kind struct {
	name     string
	capacity int // 0: a queue
	lease    time.Duration
	once     bool // AtMostOnce
	roles    []string
}

var (
	ofOne  = []string{"lock", "permit", "wait", "try", "renew", "mutex", "cancel"}
	ofMany = []string{"lock", "permit", "wait", "weighted", "weighted", "try", "renew", "mutex", "cancel"}

	kinds = []kind{
		{name: "one", capacity: 1, lease: time.Second, roles: ofOne},
		{name: "one longer", capacity: 1, lease: 2 * time.Second, roles: ofOne},
		{name: "three", capacity: 3, lease: time.Second, roles: ofMany},
		{name: "five", capacity: 5, lease: 2 * time.Second, roles: ofMany},
		{name: "jobs", lease: time.Second, roles: []string{"signal", "consume", "consume"}},
		{name: "jobs at most once", lease: 5 * time.Second, once: true, roles: []string{"signal", "once", "once"}},
	}
)

// target is a key.
type target struct {
	kind
	key   string
	watch *watch
}

func (g *target) queue() bool { return g.capacity == 0 }

// part is that of a process in a role.
func (g *target) part(role string) Part {
	p := Part{Role: role, Key: g.key}
	if g.queue() {
		p.Queue = semaphore.QueueSettings{Visibility: g.lease, AtMostOnce: g.once}
	} else {
		p.Settings = semaphore.Settings{Expiration: g.lease, TryLockTimeout: time.Second, LockAttempts: 3, MaxParallelResources: g.capacity}
	}
	return p
}

// killsEach is after how many deaths there are new keys.
const killsEach = 24

// newTargets gives keys of each kind, for so many kills.
func newTargets(kills int) (rounds [][]*target) {
	for i := range kills/killsEach + 1 {
		var round []*target
		for _, k := range kinds {
			key := fmt.Sprintf("%s %d", k.name, i)
			round = append(round, &target{k, key, newWatch(key, k.capacity == 0, k.lease)})
		}
		rounds = append(rounds, round)
	}
	return rounds
}

func TestProcessesKilledAtRandomMomentsBreakNoGuarantee(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	start := time.Now()
	c := newCrew(t)
	rounds := newTargets(*kills)
	w := startWatcher(server.Dial(t))
	rest, roles := killMany(t, c, w, rounds)
	stop := Clock()
	for _, err := range finishAll(rest) {
		t.Error(err)
	}
	t.Logf("measured: seed %d: %d processes killed in %v: %v", *seed, *kills, time.Since(start).Round(time.Millisecond), roles)

	targets := slices.Concat(rounds...)
	drained := make([]life, len(targets))
	wrong := make([]complaints, len(targets))
	var ends sync.WaitGroup
	for i, g := range targets {
		ends.Go(func() { drained[i], wrong[i] = settle(g) })
	}
	ends.Wait()
	require.NoError(t, w.end())
	t.Logf("measured: %d rounds of readings, %v apart at most", w.rounds, w.longest)
	sums := make(map[string]*figures)
	for i, g := range targets {
		report(t, g.key, "the end", wrong[i])
		if sums[g.name] == nil {
			sums[g.name] = &figures{outcomes: make(map[Event]int)}
		}
		judge(t, g, append(c.lives(g.key), drained[i]), stop, sums[g.name])
	}
	for _, k := range kinds {
		t.Logf("measured: %q: %v", k.name, sums[k.name])
	}
	t.Logf("measured: all in %v", time.Since(start).Round(time.Millisecond))
}

// crowd is how many processes are alive at a time.
const crowd = 8

// killMany runs processes in random roles and kills them at random moments. It answers
// those that are left, and how many were killed in each role.
func killMany(t *testing.T, c *crew, w *watcher, rounds [][]*target) (rest []*process, roles map[string]int) {
	var killed atomic.Int64
	var mu sync.Mutex // guards rest, roles
	roles = make(map[string]int)
	var wg sync.WaitGroup
	for i := range crowd {
		r := rand.New(rand.NewPCG(*seed, uint64(i)))
		wg.Go(func() {
			for {
				n := killed.Add(1) - 1
				g := rounds[min(int(n), *kills)/killsEach][r.IntN(len(kinds))]
				w.add(g.watch)
				p, err := c.start(g.part(g.roles[r.IntN(len(g.roles))]))
				if err != nil {
					t.Error(err)
					return
				}
				if n >= int64(*kills) {
					mu.Lock()
					defer mu.Unlock()
					rest = append(rest, p)
					return
				}
				live(p, r)
				p.kill()
				w.leave(g.watch)
				mu.Lock()
				roles[p.Role]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return rest, roles
}

// hopeful is how long a process lives that holds nothing.
const hopeful = 1200 * time.Millisecond

// live waits until a process is to be killed: mostly a moment after it holds something,
// else right after its start, or a good while later.
func live(p *process, r *rand.Rand) {
	short := time.Duration(r.Int64N(int64(30 * time.Millisecond)))
	switch die := r.IntN(20); {
	case die < 2:
		time.Sleep(short / 10)
		return
	case die < 4:
		time.Sleep(short)
		return
	case die >= 17:
		short *= 30
	}
	select {
	case <-p.holds:
	case <-time.After(hopeful):
	}
	time.Sleep(short)
}

// finishAll ends processes, and says what went wrong.
func finishAll(rest []*process) (failures []error) {
	time.Sleep(500 * time.Millisecond) // they work undisturbed for a while
	for _, p := range rest {
		p.stdin.Close()
	}
	for _, p := range rest {
		if err := p.finish(); err != nil {
			failures = append(failures, err)
		}
	}
	return failures
}

// slack is how much longer than it must it may take until all is free, on a busy machine.
const slack = 8 * time.Second

// settle waits until nothing is held by the dead; of a queue, it consumes what is left.
// It answers the records of that.
func settle(g *target) (l life, wrong complaints) {
	pool := redistest.UserPool(server.Addr)
	defer pool.Close()
	client := redigoadapter.New(pool)
	// The last who died may get permits until they count as dead, for the claim window.
	bound := 2*g.lease + 3*time.Second + slack
	ctx, stop := context.WithTimeout(context.Background(), bound)
	defer stop()
	var err error
	if g.queue() {
		l, err = drain(ctx, client, g)
	} else {
		err = awaitAllFree(ctx, client, g)
	}
	if err != nil {
		wrong.add(nil, "%v", err)
	}
	conn, err := redis.Dial("tcp", server.Addr)
	if err != nil {
		wrong.add(nil, "%v", err)
		return l, wrong
	}
	defer conn.Close()
	sendReading(conn, g.key, g.queue())
	if err := conn.Flush(); err != nil {
		wrong.add(nil, "%v", err)
	}
	r, err := receiveReading(conn, g.queue())
	if err != nil {
		wrong.add(nil, "%v", err)
	}
	return l, append(wrong, r.checkEmpty(g.capacity)...)
}

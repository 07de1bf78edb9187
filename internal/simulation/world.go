// Package simulation runs the real client code and the real Lua of redsem in a
// world of its own: several processes, a network and a Redis, all in one process
// and in virtual time. A seed decides about every delay and every fault, so that a
// run which goes wrong can be repeated exactly.
//
// The time is that of a bubble of testing/synctest. The Redis is a model
// (package luaredis) that runs the scripts; the network is made of timers. After
// each script, and whenever a process gets a permit or gives one back, the world
// checks what redsem promises.
package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/luaredis"
	"github.com/redsem/redsem/redisadapter"
)

// world is one run. Its parts are touched with mu held; scripts run one by one.
type world struct {
	Plan
	skew  time.Duration // of the server's clock
	start time.Time
	names map[string]string // SHA of a script → step

	mu        sync.Mutex
	server    *luaredis.Server
	replica   luaredis.Data // what the server had at the last moment that a fail-over keeps
	down      bool          // nobody answers
	runaway   bool          // … nor ever will
	blocked   []*pop        // in the order in which they came
	calm      bool          // no more faults
	processes []*process
	draws     map[uint64]uint64 // how often a fate was asked for, by what it is for
	tokens    map[string]int    // of acquires, in their order
	checks    checks
	events    []string // what has happened, if Plan.Trace
	digest    uint64   // of all that has happened
	counts    Counts
	ended     bool
}

// Counts says how much happened in a run.
type Counts struct {
	Scripts, Grants, Lost, Late int
	Faults                      map[string]int
	LongestWait                 time.Duration // of a permit that was got
	Virtual                     time.Duration
}

// Add adds what happened in another run.
func (c *Counts) Add(other Counts) {
	c.Scripts += other.Scripts
	c.Grants += other.Grants
	c.Lost += other.Lost
	c.Late += other.Late
	c.Virtual += other.Virtual
	c.LongestWait = max(c.LongestWait, other.LongestWait)
	for fault, n := range other.Faults {
		c.Faults[fault] += n
	}
}

// String tells the counts in one line.
func (c Counts) String() string {
	return fmt.Sprintf("%d scripts, %d grants, %d replies lost, %d requests late, faults %v; %v of virtual time, longest wait %v",
		c.Scripts, c.Grants, c.Lost, c.Late, c.Faults, c.Virtual.Round(time.Second), c.LongestWait.Round(time.Millisecond))
}

// mostScripts is more than any run needs that comes to an end.
const mostScripts = 20_000

func newWorld(plan Plan) *world {
	w := &world{
		Plan:   plan,
		start:  time.Now(),
		server: luaredis.New(),
		names:  stepNames(),
		draws:  make(map[uint64]uint64),
		tokens: make(map[string]int),
		counts: Counts{Faults: make(map[string]int)},
	}
	w.skew = time.Duration(w.rng("skew", 0).Int64N(int64(100*time.Hour))) - 50*time.Hour
	w.checks.init(w)
	return w
}

// serverNow is the clock of the server.
func (w *world) serverNow() time.Time { return time.Now().Add(w.skew) }

// rng is a source of chance for one purpose.
func (w *world) rng(purpose string, n uint64) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", purpose, n)
	return rand.New(rand.NewPCG(w.Seed, h.Sum64()))
}

// chance is rng for something that happens now. It does not rest on the order in
// which goroutines come here at one moment, unless they come for the same.
func (w *world) chance(purpose string, process int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", purpose, process, time.Since(w.start))
	w.draws[h.Sum64()]++
	return rand.New(rand.NewPCG(w.Seed+w.draws[h.Sum64()]<<32, h.Sum64()))
}

// jitter stands for that of the library.
func (w *world) jitter(d time.Duration) time.Duration {
	return time.Duration(w.rng("jitter", uint64(time.Since(w.start))).Int64N(int64(d)))
}

// happened notes an event. The caller holds mu.
func (w *world) happened(format string, args ...any) {
	text := fmt.Sprintf("%12v ", time.Since(w.start)) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	h.Write([]byte(text))
	w.digest += h.Sum64() // whichever of two at one moment is the first
	if w.Trace {
		w.events = append(w.events, text)
	}
}

// arrive runs a script that has come to the server. The caller holds mu.
func (w *world) arrive(p *process, step string, script *redisadapter.Script, keys, args []string) (any, error) {
	if w.Rewrite != nil {
		script = w.Rewrite(script)
	}
	if step == "acquire" && args[4] == "0" { // a copy that comes late counts: nobody can tell
		w.checks.timeless[args[3]] = true
	}
	reply, err := w.server.Eval(w.serverNow(), script, keys, args)
	if w.counts.Scripts++; w.counts.Scripts == mostScripts {
		w.checks.flaw("there is no end of it")
		w.runaway, w.down = true, true
	}
	w.happened("%s of %d: %s", step, p.id, outcomeOf(reply, err))
	if w.Trace {
		w.events = append(w.events, fmt.Sprintf("%12s args %q reply %.300q", "", args, fmt.Sprint(reply)))
	}
	if err == nil {
		w.checks.after(step, p, args)
	} else {
		w.checks.after("a step that failed", p, nil)
	}
	w.serveBlocked()
	return reply, err
}

// outcomeOf is what of a reply does not depend on names that are chosen at random.
func outcomeOf(reply any, err error) string {
	list, ok := reply.([]any)
	if err != nil || !ok {
		message, _, _ := strings.Cut(fmt.Sprint(err), " ")
		return message
	}
	var b strings.Builder
	for i, element := range list {
		switch v := element.(type) {
		case int64:
			if i != 0 && v < 1e9 {
				fmt.Fprintf(&b, "%d ", v)
			}
		case string:
			fmt.Fprintf(&b, "%dB ", len(v)/50)
		case []any:
			fmt.Fprintf(&b, "[%d] ", len(v))
		}
	}
	return b.String()
}

// pop is a blocking pop at the server.
type pop struct {
	process *process
	key     string
	answer  func(value string, ok bool)
	fail    func()
}

// serveBlocked gives what lies in lists to those who wait for it. The caller holds
// mu.
func (w *world) serveBlocked() {
	w.blocked = slices.DeleteFunc(w.blocked, func(p *pop) bool {
		value, err := w.server.Do(w.serverNow(), "LPOP", p.key)
		if text, ok := value.(string); ok && err == nil {
			p.answer(text, true)
			return true
		}
		return false
	})
}

// cut breaks all connections of a process, or of all (nil). The caller holds mu.
func (w *world) cut(process *process) {
	w.blocked = slices.DeleteFunc(w.blocked, func(p *pop) bool {
		if process != nil && p.process != process {
			return false
		}
		p.fail()
		return true
	})
}

// key is a key of the semaphore, or the queue, that the world is about.
func (w *world) key(suffix string) string { return "semaphore:{k}" + suffix }

// do runs a command on the server, to look or to meddle. The caller holds mu.
func (w *world) do(command string, args ...string) any {
	reply, err := w.server.Do(w.serverNow(), command, args...)
	if err != nil {
		panic(err)
	}
	return reply
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

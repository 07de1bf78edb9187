package histories

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

var (
	histories = flag.Int("histories", 12, "how many histories")
	seed      = flag.Uint64("seed", 1, "the seed of the first history; the others have the next ones")
)

const (
	atOnce   = 12               // so many histories run at a time
	patience = 60 * time.Second // for the checker: it needs milliseconds
)

// No order of the calls that a semaphore allows is missing, whatever happens to the
// connections and the server.
func TestHistoriesUnderFaultsAreLinearizable(t *testing.T) {
	var faults, events, unknown, operations, exact, longest atomic.Int64
	start := time.Now()
	each(*histories, func(i int) {
		p := newPlan(*seed + uint64(i))
		t.Run(fmt.Sprint("seed ", p.seed), func(t *testing.T) {
			h, n, err := run(t, p)
			require.NoError(t, err, "-seed %d", p.seed)
			ops := h.operations()
			checked := time.Now()
			result := porcupine.CheckOperationsTimeout(model, ops, patience)
			took := time.Since(checked)
			if result != porcupine.Ok {
				t.Errorf("-seed %d: %s; see %s", p.seed, result, picture(t, ops))
			}
			faults.Add(int64(n))
			events.Add(int64(len(h.events)))
			operations.Add(int64(len(ops)))
			unknown.Add(int64(h.failures()))
			exact.Add(int64(precise(ops)))
			raise(&longest, int64(took))
		})
	})
	t.Logf("%d histories in %v: %d faults, %d calls, %d of them of unknown outcome, %d operations checked, %d of them exact counts or refusals, the longest check %v",
		*histories, time.Since(start).Round(time.Second), faults.Load(), events.Load(), unknown.Load(), operations.Load(), exact.Load(), time.Duration(longest.Load()))
}

// each calls do with 0 to n-1, some at a time, and waits for all.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	all.Wait()
}

// raise makes a number at least so great.
func raise(n *atomic.Int64, to int64) {
	for was := n.Load(); was < to && !n.CompareAndSwap(was, to); was = n.Load() {
	}
}

// failures is how many calls did not tell their callers what they had done.
func (h *history) failures() (n int) {
	for _, e := range h.events {
		if e.call == failed || e.answer == silent && (e.call == released || e.call == asked) {
			n++
		}
	}
	return n
}

// precise is how many operations tell exactly how many permits are held, or a bound of
// it from below.
func precise(ops []porcupine.Operation) (n int) {
	for _, op := range ops {
		if s := op.Input.(step); s.what == refuses || s.what == counts && s.unknown == 0 {
			n++
		}
	}
	return n
}

// picture shows what the checker found, in a file that stays.
func picture(t *testing.T, ops []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(model, ops, patience)
	file, err := os.CreateTemp("", "redsem-history-*.html")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, porcupine.Visualize(model, info, file))
	return file.Name()
}

// run makes a history, and says how many faults there were. The error is one that nobody
// should have met.
func run(t *testing.T, p plan) (*history, int, error) {
	server := start(t)
	defer server.Close()
	r := &record{plan: p, start: time.Now()}
	var proxies []*faultproxy.Proxy
	var workers []*worker
	for i := range p.processes {
		proxy, err := faultproxy.New(server.Addr)
		require.NoError(t, err)
		defer proxy.Close()
		proxies = append(proxies, proxy)
		first, closeIt := newWorker(t, r, proxy.Addr(), p.renewing[i])
		defer closeIt()
		for range p.goroutines[i] {
			w := *first
			w.client = len(workers)
			w.random = p.random(w.client + 1)
			workers = append(workers, &w)
		}
	}
	judge, closeIt := newWorker(t, r, server.Addr, false)
	defer closeIt()
	judge.client = len(workers)
	var working sync.WaitGroup
	for _, w := range workers {
		working.Go(w.run)
	}
	f := newFaults(t, p, server, proxies)
	f.run(p.length)
	working.Wait()
	for _, proxy := range proxies {
		proxy.Cut() // nothing is under way any more
	}
	judge.last()
	h, err := r.history()
	return h, f.count, err
}

var starting sync.Mutex

// start runs a server. They start one after the other, lest two choose the same port: the
// second would end, and its history would talk to the first.
func start(t *testing.T) *redistest.Server {
	starting.Lock()
	defer starting.Unlock()
	server, err := redistest.New()
	require.NoError(t, err)
	return server
}

// newWorker makes a goroutine of a new process, which reaches the server at an address.
func newWorker(t *testing.T, r *record, addr string, renewing bool) (w *worker, closeIt func()) {
	pool := redistest.NewPool(addr, 0)
	client := &process{
		Redis: redigoadapter.New(pool), rewrite: r.scripts, start: r.start,
		lease: int64(r.expiration) - clocks, fates: make(map[string]*fate),
	}
	sem, err := semaphore.New("history", client, nil, semaphore.Settings{
		Expiration: r.expiration, MaxParallelResources: r.capacity, AutoRenew: renewing,
	})
	require.NoError(t, err)
	return &worker{record: r, process: client, sem: sem, abandon: !renewing}, func() { pool.Close() }
}

// last is the part of a history without faults, of a process that had none: it gives a
// permit back too late, and when all leases have ended all permits are free.
func (w *worker) last() {
	rest := time.Now().Add(2*w.expiration + time.Second) // a permit that was waited for may be extended once more
	if l := w.take(patience); l == nil {
		w.unexpected(fmt.Errorf("no permit, though no fault and no holder is left: %w", w.trouble))
	} else {
		time.Sleep(time.Duration(l.answered-w.now()) + w.expiration + grace + 50*time.Millisecond)
		w.unlock(l)
	}
	time.Sleep(time.Until(rest))
	w.end = w.now()
	w.count()
}

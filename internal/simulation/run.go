package simulation

import (
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
)

// longestRun is a time after which a worker that has not ended never will.
const longestRun = 10 * time.Minute

// Result is what a run has shown.
type Result struct {
	Plan   Plan
	Counts Counts
	Digest uint64   // the same for the same seed
	Flaws  []string // what was not as promised
	Events []string // if Plan.Trace
}

// Run runs a plan. It must be called in a bubble of testing/synctest, and uses the
// clock of the process: so only one at a time.
func Run(plan Plan) Result {
	w := newWorld(plan)
	protocol.Jitter = w.jitter
	for id := range plan.Processes {
		w.processes = append(w.processes, newProcess(w, id))
	}
	var workers, chaos sync.WaitGroup
	for _, p := range w.processes {
		for i := range plan.Workers {
			workers.Go(p.worker(w.rng("worker", uint64(p.id*100+i))).work)
		}
		if plan.Queue {
			workers.Go(p.worker(w.rng("producer", uint64(p.id))).produce)
		}
	}
	chaos.Go(w.chaos)
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(plan.faultsFor()):
	}
	w.settle()
	select {
	case <-done:
	case <-time.After(longestRun):
		w.locked(func() {
			w.checks.flaw("a worker does not end")
			for _, p := range w.processes {
				p.die()
			}
		})
		<-done
	}
	chaos.Wait()
	w.rest()
	return w.result()
}

// faultsFor is for how long there are faults.
func (p Plan) faultsFor() time.Duration {
	return time.Duration(p.Rounds) * (p.Expiration + p.Busy + 2*time.Second)
}

// rest waits until all leases must have ended, and looks what is left.
func (w *world) rest() {
	if w.Queue {
		w.drain()
	}
	time.Sleep(2*w.Expiration + 25*time.Second) // copies of messages are under way for 20 s
	observer := newProcess(w, len(w.processes))
	if !w.Queue {
		free, err := observer.plain.GetNumAvailableResources()
		if err != nil || free != w.Capacity {
			w.locked(func() { w.checks.flaw("at rest %d are free, %v", free, err) })
		}
	}
	w.mu.Lock()
	w.checks.atRest()
	w.mu.Unlock()
	time.Sleep(2*w.Expiration + 5*time.Minute) // longer after calls that were under way for long
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.server.Keys(w.serverNow()); len(left) > 0 {
		for _, key := range left {
			w.checks.flaw("%s is left, for %v ms", key, w.do("PTTL", key))
		}
	}
	w.ended = true
}

func (w *world) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server.Close()
	w.counts.Virtual = time.Since(w.start)
	return Result{Plan: w.Plan, Counts: w.counts, Digest: w.digest, Flaws: w.checks.flaws, Events: w.events}
}

package simulation

import (
	"math/rand/v2"
	"time"
)

// AllFaults are those that a Plan may name, beside lost and late messages.
var AllFaults = []string{"crash", "pause", "cut", "away", "outage", "restart empty", "flush", "fail-over", "evict", "full"}

// keys are those of which one may be evicted, by their suffixes. The two that protect
// leases are not evicted together.
var keys = []string{"", ":version", ":available", ":locked", ":leases", ":queue", ":clients", ":released", ":calls", ":jobs", ":expiries"}

// chaos does faults, one after the other, until the world is calm.
func (w *world) chaos() {
	r := w.rng("chaos", 0)
	for {
		time.Sleep(time.Duration(20+r.Int64N(800)) * time.Millisecond)
		w.mu.Lock()
		if w.calm {
			w.mu.Unlock()
			return
		}
		if r.IntN(2) == 0 {
			w.replica = w.server.Save()
		}
		if len(w.Faults) > 0 {
			fault := w.Faults[r.IntN(len(w.Faults))]
			if w.fault(fault, r) {
				w.counts.Faults[fault]++
			}
		}
		w.mu.Unlock()
	}
}

// fault does one. The caller holds mu.
func (w *world) fault(name string, r *rand.Rand) bool {
	p := w.processes[r.IntN(len(w.processes))]
	long := time.Duration(r.Int64N(int64(6 * time.Second)))
	short := time.Duration(r.Int64N(int64(1500 * time.Millisecond)))
	key := keys[r.IntN(len(keys))]
	switch name {
	case "crash":
		if p.dead || p.id%2 == 0 { // somebody stays alive
			return false
		}
		p.die()
	case "pause":
		p.paused = time.Now().Add(long)
	case "cut":
		w.cut(p)
	case "away":
		p.away = time.Now().Add(short)
		w.cut(p)
	case "outage":
		w.outage(short)
	case "restart empty":
		w.server.Flush()
		w.checks.lose()
		w.outage(short)
	case "flush":
		w.server.Flush()
		w.checks.lose()
	case "fail-over":
		w.server.Load(w.replica)
		w.checks.lose()
		w.outage(short)
	case "evict":
		if !w.server.Delete(w.key(key)) {
			return false
		}
		w.checks.evicted(key)
	case "full":
		w.server.Full = true
		time.AfterFunc(short, func() { w.locked(func() { w.server.Full = false }) })
	}
	w.happened("FAULT %s, process %d, %v, %v, key %q", name, p.id, short, long, key)
	return true
}

// outage takes the server away for a while. The caller holds mu.
func (w *world) outage(d time.Duration) {
	if w.down {
		return
	}
	w.down = true
	w.cut(nil)
	time.AfterFunc(d, func() { w.locked(func() { w.down = w.runaway }) })
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// settle ends all faults.
func (w *world) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened("CALM")
	w.calm, w.down, w.server.Full = true, w.runaway, false
	for _, p := range w.processes {
		p.paused, p.away = time.Time{}, time.Time{}
	}
}

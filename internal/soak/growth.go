package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// sample is what the soak occupies when nothing is under way.
type sample struct {
	goroutines  int
	connections int // to the server
	heap        int // bytes, after a garbage collection
	memory      int // bytes, of Redis
}

// Bounds of the growth, from the first sample to the last. What grows with every
// operation or fault is above them after some minutes; what they allow for is caches and
// buffers, and connections in pools, each with its goroutines in the proxy.
const (
	moreConnections = 20
	moreGoroutines  = 5*moreConnections + 20
	moreHeap        = 8 << 20
	moreMemory      = 8 << 20
)

// quietFor bounds the wait until nothing is under way.
const quietFor = 30 * time.Second

// sample waits until nothing seems to be under way, or until it is long enough, and
// measures.
func (w *world) sample(enough func(sample) bool) sample {
	deadline := time.Now().Add(quietFor)
	time.Sleep(idle)
	for last := (sample{}); ; {
		time.Sleep(idle / 2)
		s := w.measure()
		if enough(s) && s.goroutines >= last.goroutines && last != (sample{}) || time.Now().After(deadline) {
			return s
		}
		last = s
	}
}

func (w *world) measure() sample {
	for _, n := range w.nodes {
		n.trim()
	}
	var s sample
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	s.heap, s.goroutines = int(m.HeapAlloc), runtime.NumGoroutine()
	s.connections = w.info("clients", "connected_clients") - 1 // that is this one
	s.memory = w.info("memory", "used_memory")
	return s
}

// biggest lists the keys that occupy most of the memory of Redis.
func (w *world) biggest() (text string) {
	keys, _ := redis.Strings(w.do("KEYS", "*"), nil)
	sizes := make(map[string]int)
	for _, k := range keys {
		sizes[k], _ = redis.Int(w.do("MEMORY", "USAGE", k, "SAMPLES", 0), nil)
	}
	slices.SortFunc(keys, func(a, b string) int { return sizes[b] - sizes[a] })
	for _, k := range keys[:min(len(keys), 12)] {
		text += fmt.Sprintf(" %s: %d", k, sizes[k])
	}
	return fmt.Sprintf("%d keys, the biggest:%s", len(keys), text)
}

// info reads a number of INFO.
func (w *world) info(section, name string) int {
	text, _ := redis.String(w.do("INFO", section), nil)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	w.must.Fatalf("INFO %s has no %s", section, name)
	return 0
}

// within says whether a later sample is within the bounds.
func (s sample) within(later sample) bool { return len(s.growth(later)) == 0 }

// growth names what is above its bound.
func (s sample) growth(later sample) (above []string) {
	for _, g := range []struct {
		name              string
		start, end, bound int
	}{
		{"goroutines", s.goroutines, later.goroutines, moreGoroutines},
		{"connections", s.connections, later.connections, moreConnections},
		{"heap", s.heap, later.heap, moreHeap},
		{"memory of redis", s.memory, later.memory, moreMemory},
	} {
		if g.end > g.start+g.bound {
			above = append(above, g.name+" grew from "+strconv.Itoa(g.start)+" to "+strconv.Itoa(g.end)+
				", which is above the bound of "+strconv.Itoa(g.bound)+" more")
		}
	}
	return above
}

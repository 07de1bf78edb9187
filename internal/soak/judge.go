package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
)

// judge takes the records of all players and finds what is wrong. Records are judged in
// the order of their times, once all that are earlier must have come: however slow a child
// or its pipe may be, the verdict is the same. All times are of crashtest.Clock, in ns.
type judge struct {
	mu      sync.Mutex
	sources []*source // by number; guarded by mu, as is all that follows
	pending []record  // not judged yet
	limit   int64     // nothing later is judged, if not 0: a loss of data is under way
	said    func(violation)

	operations map[[2]int64]*operation // under way, by source and number
	rooms      map[string]*room        // by semaphore
	queues     map[string]*ledger      // by queue
	unwell     [][2]int64              // when the server could not answer
	losses     []loss
	harm       map[string]int64 // when a key of that name was last deleted by hand

	violations []violation
	wrong      int // all of them; violations has the first
	counts     map[string]int
	errors     map[string]int
	waits      histogram
	longest    violation // the longest of waits; not wrong as such
}

// maxViolations are kept; more are only counted.
const maxViolations = 50

type violation struct {
	at   int64
	text string
}

// source is where records come from.
type source struct {
	child bool
	mark  int64 // all records of earlier times have come; of a child
	ended bool
	died  int64
}

// operation is what is known of one that is under way.
type operation struct {
	record       // the one that began it
	hold   *hold // nil while it holds nothing
}

// loss is a time in which all data were lost; what was granted before its end, that is
// with a fence up to floor, is not protected any more.
type loss struct{ from, to, floor int64 }

func newJudge(said func(violation)) *judge {
	j := &judge{said: said, operations: make(map[[2]int64]*operation), rooms: make(map[string]*room),
		queues: map[string]*ledger{jobs: newLedger(), once: newLedger()}, harm: make(map[string]int64),
		counts: make(map[string]int), errors: make(map[string]int)}
	for key, capacity := range capacities {
		j.rooms[key] = &room{capacity: capacity}
	}
	return j
}

// source makes the number of a new source.
func (j *judge) source(child bool) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sources = append(j.sources, &source{child: child, mark: crashtest.Clock()})
	return len(j.sources) - 1
}

// take is the write of a client of this process: the record is of now.
func (j *judge) take(r record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.At = crashtest.Clock()
	j.pending = append(j.pending, r)
}

// read takes a line of a child.
func (j *judge) read(line []byte, source int) {
	var r record
	err := json.Unmarshal(line, &r)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.blame(crashtest.Clock(), "a child writes %q: %v", line, err)
		return
	}
	j.sources[source].mark = max(j.sources[source].mark, r.At)
	if r.Event != alive {
		j.pending = append(j.pending, r)
	}
}

// end says that all records of a child have come, and that it is dead.
func (j *judge) end(source int, at int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sources[source].ended, j.sources[source].died = true, at
	j.pending = append(j.pending, record{Source: source, Record: crashtest.Record{At: at, Event: died}})
}

// died is the event of the end of a child.
const died crashtest.Event = "died"

// blame notes a violation. The caller holds mu.
func (j *judge) blame(at int64, format string, args ...any) {
	j.wrong++
	v := violation{at, fmt.Sprintf(format, args...)}
	if len(j.violations) < maxViolations {
		j.violations = append(j.violations, v)
	}
	if j.said != nil {
		j.said(v)
	}
}

// accuse is blame for others than the judge, of now.
func (j *judge) accuse(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.blame(crashtest.Clock(), format, args...)
}

// settle judges what can be judged by now.
func (j *judge) settle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	mark := crashtest.Clock()
	if j.limit != 0 {
		mark = j.limit
	}
	for _, s := range j.sources {
		if s.child && !s.ended {
			mark = min(mark, s.mark)
		}
	}
	slices.SortStableFunc(j.pending, func(a, b record) int { return int(a.At - b.At) })
	n, _ := slices.BinarySearchFunc(j.pending, mark, func(r record, at int64) int { return int(r.At - at) })
	for _, r := range j.pending[:n] {
		j.apply(r)
	}
	j.pending = append([]record(nil), j.pending[n:]...)
	for key, room := range j.rooms {
		known := mark // all holds that began before are over
		for _, o := range j.operations {
			if o.Key == key && o.hold != nil {
				known = min(known, o.hold.from)
			}
		}
		room.judge(known, func(at int64, text string) { j.blame(at, "%s: %s", key, text) })
	}
}

// losing says that data are going to be lost from now on: until lost, nothing later is
// judged.
func (j *judge) losing() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.limit = crashtest.Clock()
	return j.limit
}

// lost says that the loss is over; what Redis granted before floor (its time, µs) is lost.
func (j *judge) lost(floor int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := loss{j.limit, crashtest.Clock(), floor}
	j.limit = 0
	j.losses = append(j.losses, l)
	for _, r := range j.rooms {
		r.lost(l)
	}
	for _, q := range j.queues {
		q.lost(l)
	}
}

// harmed says that a key is about to be deleted by hand: holders may learn of a loss.
func (j *judge) harmed(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.harm[name] = crashtest.Clock()
}

// ill says that the server could not answer from some time until now.
func (j *judge) ill(from int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unwell = append(j.unwell, [2]int64{from, crashtest.Clock()})
}

// waited is how long it was from one time to another while the server was well.
func (j *judge) waited(from, to int64) time.Duration {
	d := to - from
	for i := len(j.unwell) - 1; i >= 0 && j.unwell[i][1] > from; i-- {
		d -= max(0, min(to, j.unwell[i][1])-max(from, j.unwell[i][0]))
	}
	return time.Duration(d)
}

package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/redisadapter"
)

// Plan is what a run is about. All of it follows from the seed, unless a test says
// otherwise.
type Plan struct {
	Seed       uint64
	Queue      bool // a queue of jobs in place of a semaphore
	Once       bool // … whose jobs are delivered at most once
	Capacity   int
	Expiration time.Duration
	Processes  int
	Workers    int           // of each process
	Rounds     int           // of each worker
	Link       time.Duration // how long a message is under way, mostly
	Losses     float64       // of messages
	Stragglers float64       // messages that take up to 4 s more
	Faults     []string      // those that may happen; see chaos
	Busy       time.Duration // longest pause of a worker between two rounds

	Trace   bool                                            // note all events
	Rewrite func(*redisadapter.Script) *redisadapter.Script // changes what the server runs, to see whether that is noticed
}

// NewPlan draws a plan.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(n ...int) int { return n[r.IntN(len(n))] }
	p := Plan{
		Seed:       seed,
		Queue:      r.IntN(3) == 0,
		Capacity:   pick(1, 1, 2, 3, 5),
		Expiration: time.Duration(pick(1000, 1700, 3000, 5000)) * time.Millisecond,
		Processes:  pick(1, 2, 3, 4),
		Workers:    pick(1, 2, 3),
		Rounds:     pick(2, 3, 4),
		Link:       time.Duration(pick(50, 500, 5000, 50000)) * time.Microsecond,
		Busy:       time.Duration(pick(1, 50, 500)) * time.Millisecond,
	}
	p.Once = p.Queue && r.IntN(3) == 0
	if r.IntN(4) > 0 {
		p.Losses = float64(pick(1, 5, 20)) / 100
		p.Stragglers = float64(pick(0, 1, 5)) / 100
		for _, fault := range AllFaults {
			if r.IntN(3) == 0 {
				p.Faults = append(p.Faults, fault)
			}
		}
	}
	return p
}

// String tells a plan in one line.
func (p Plan) String() string {
	what := "semaphore"
	switch {
	case p.Once:
		what = "queue, at most once"
	case p.Queue:
		what = "queue"
	}
	return fmt.Sprintf("seed %d: %s, capacity %d, lease %v, %d processes × %d workers × %d rounds, link %v, losses %v, stragglers %v, faults %v",
		p.Seed, what, p.Capacity, p.Expiration, p.Processes, p.Workers, p.Rounds, p.Link, p.Losses, p.Stragglers, p.Faults)
}

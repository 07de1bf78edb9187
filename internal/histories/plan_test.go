package histories

import (
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/redisadapter"
)

// plan is what a history is made of. A seed gives the same plan again, but not the same
// history: that the machine decides.
type plan struct {
	seed       uint64
	capacity   int
	processes  int
	goroutines []int  // of each process
	renewing   []bool // processes that renew their permits
	expiration time.Duration
	length     time.Duration // of the part with faults
	mostCalls  int           // of each goroutine, about
	keep, rest int           // ms: how long a permit is held, and then nothing done, at most
	pauses     bool          // of the server
	hurry      bool          // half of the waits end about when the answer comes, over slow links
	scripts    func(*redisadapter.Script) *redisadapter.Script
}

const (
	calls = 120 // of a history, about

	// longestStall bounds what holds a step back that its sender may have given up.
	longestStall = 400 * time.Millisecond

	// grace is how long, after a lease should have ended by the last answer, a copy of a
	// step that extends it may still have come to Redis.
	grace = longestStall + 600*time.Millisecond
)

func newPlan(seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 0))
	p := plan{
		seed:       seed,
		capacity:   1 + random.IntN(mostCapacity),
		processes:  3 + random.IntN(3),
		expiration: time.Second + time.Duration(random.IntN(3))*200*time.Millisecond,
		length:     1500*time.Millisecond + time.Duration(random.IntN(1500))*time.Millisecond,
		keep:       []int{3, 15, 40}[random.IntN(3)],
		rest:       []int{10, 50, 120}[random.IntN(3)],
		pauses:     random.IntN(3) == 0,
		hurry:      random.IntN(3) == 0,
		scripts:    func(s *redisadapter.Script) *redisadapter.Script { return s },
	}
	all := 0
	for range p.processes {
		n := 1 + random.IntN(2)
		p.goroutines = append(p.goroutines, n)
		p.renewing = append(p.renewing, random.IntN(3) == 0)
		all += n
	}
	p.mostCalls = calls / all
	return p
}

// random is a source of its own for each part of a history.
func (p plan) random(part int) *rand.Rand { return rand.New(rand.NewPCG(p.seed, uint64(part))) }

package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/semaphore"
)

// process stands for a program on a machine of its own.
type process struct {
	w     *world
	id    int
	plain *semaphore.Semaphore
	auto  *semaphore.Semaphore // renews its leases
	queue *semaphore.Queue

	// Guarded by world.mu.
	cancels []context.CancelFunc // end the contexts of the workers
	paused  time.Time            // until then nothing goes out or comes in, and nobody works
	away    time.Time            // until then it has no connection
	dead    bool
}

func newProcess(w *world, id int) *process {
	p := &process{w: w, id: id}
	c := &client{w: w, p: p}
	set := semaphore.Settings{MaxParallelResources: w.Capacity, Expiration: w.Expiration, TryLockTimeout: time.Second, Owner: "o"}
	var err error
	if p.plain, err = semaphore.New("k", c, nil, set); err != nil {
		panic(err)
	}
	set.AutoRenew = true
	if p.auto, err = semaphore.New("k", c, nil, set); err != nil {
		panic(err)
	}
	if p.queue, err = semaphore.NewQueue("k", c, nil, semaphore.QueueSettings{Visibility: w.Expiration, AtMostOnce: w.Once}); err != nil {
		panic(err)
	}
	return p
}

// worker makes one. Its context ends when the process dies.
func (p *process) worker(rng *rand.Rand) *worker {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancels = append(p.cancels, cancel)
	return &worker{process: p, rng: rng, ctx: ctx}
}

// link says for how long the process says nothing, because it is paused, and whether
// it has a connection. The caller holds world.mu.
func (p *process) link() (hold time.Duration, reachable bool) {
	if p.dead || p.w.down || time.Now().Before(p.away) {
		return 0, false
	}
	return max(time.Until(p.paused), 0), true
}

// receive lets something happen to the process when a message has come to it. The
// caller holds world.mu.
func (p *process) receive(after time.Duration, do func()) {
	if p.dead {
		return
	}
	time.AfterFunc(max(after, time.Until(p.paused)+after), do)
}

// awake waits until the process may go on; it is false if it is dead.
func (p *process) awake() bool {
	for {
		p.w.mu.Lock()
		wait, dead := time.Until(p.paused), p.dead
		p.w.mu.Unlock()
		if dead || wait <= 0 {
			return !dead
		}
		time.Sleep(wait)
	}
}

// die ends a process as SIGKILL does: what it has sent is under way, but nothing more.
// The caller holds world.mu.
func (p *process) die() {
	p.dead = true
	for i, cancel := range p.cancels { // not at one moment, so that a run can be repeated
		time.AfterFunc(time.Duration(i)*time.Microsecond, cancel)
	}
	p.w.cut(p)
}

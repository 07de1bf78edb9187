package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// load is what the goroutines of one client do: operations of all kinds, drawn at
// random, until stopping.
type load struct {
	part
	client   redisadapter.Redis
	owner    string
	plain    map[string]*semaphore.Semaphore // by key
	renewed  map[string]*semaphore.Semaphore // the same with AutoRenew
	queues   map[string]*semaphore.Queue
	ctx      context.Context // ends all waits; for when they do not end by themselves
	stopping atomic.Bool
	players  sync.WaitGroup
}

// kinds of operations, by how often they are drawn. Half of the players take none
// that wait in line until they hold, so that there is always something going on.
var kinds = []struct {
	name   string
	weight int
	waits  bool
	play   func(*load, string)
}{
	{"lock", 3, true, (*load).lock},
	{"acquire", 5, true, (*load).acquire},
	{"acquire n", 3, true, (*load).acquireN},
	{"renew", 1, true, (*load).renew},
	{"mutex", 2, true, (*load).mutex},
	{"try", 2, false, (*load).try},
	{"cancel", 3, false, (*load).cancel},
	{"signal", 3, false, (*load).signal},
	{"consume", 3, false, (*load).consume},
	{"consume once", 3, false, (*load).consumeOnce},
	{"resize", 1, false, (*load).resize},
	{"inspect", 1, false, (*load).inspect},
	{"status", 1, false, (*load).status},
}

func newLoad(ctx context.Context, source int, client redisadapter.Redis, owner string, write func(record)) (*load, error) {
	l := &load{part: part{source: source, write: write}, client: client, owner: owner, ctx: ctx,
		plain: make(map[string]*semaphore.Semaphore), renewed: make(map[string]*semaphore.Semaphore), queues: make(map[string]*semaphore.Queue)}
	var err error
	for _, key := range names {
		if l.plain[key], err = semaphore.New(key, client, nil, settings(key, owner, false)); err != nil {
			return nil, err
		}
		if l.renewed[key], err = semaphore.New(key, client, nil, settings(key, owner, true)); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{jobs, once} {
		if l.queues[key], err = semaphore.NewQueue(key, client, nil, queueSettings(key, owner, key == jobs)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// start runs so many players until stop, or until ctx ends.
func (l *load) start(players int) {
	l.stopping.Store(false)
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for i := range players {
		l.players.Go(func() {
			kinds[i%len(kinds)].play(l, names[i%len(names)]) // each kind, if they are enough
			for !l.stopping.Load() && l.ctx.Err() == nil {
				draw := rand.IntN(total)
				for _, k := range kinds {
					if draw -= k.weight; draw < 0 {
						if i%2 == 0 || !k.waits {
							k.play(l, names[rand.IntN(len(names))])
						}
						break
					}
				}
				doze(4 * time.Millisecond)
			}
		})
	}
}

// stop lets the players end what they do.
func (l *load) stop() { l.stopping.Store(true) }

// lock holds a token.
func (l *load) lock(key string) {
	o := l.ask("lock", key)
	token, err := l.plain[key].Lock()
	if err != nil {
		o.refused(err)
		return
	}
	// This is what the caller of Lock knows: the lease began after he asked.
	o.note(crashtest.Record{Event: crashtest.Holds, Permits: 1, Until: o.asked + int64(lease)})
	doze(20 * time.Millisecond)
	o.note(crashtest.Record{Event: crashtest.Leaving})
	o.ended(l.plain[key].Unlock(token))
}

func (l *load) acquire(key string) {
	o := l.ask("acquire", key)
	o.hold(l.plain[key].Acquire(l.ctx))
}

// acquireN holds several permits.
func (l *load) acquireN(key string) {
	o := l.ask("acquire n", key)
	o.hold(l.plain[key].AcquireN(l.ctx, 1+rand.IntN(capacities[key])))
}

// try does not wait.
func (l *load) try(key string) {
	o := l.ask("try", key)
	o.hold(l.plain[key].TryAcquire(l.ctx))
}

// cancel gives up soon.
func (l *load) cancel(key string) {
	ctx, stop := context.WithTimeout(l.ctx, rand.N(50*time.Millisecond))
	defer stop()
	if rand.IntN(4) == 0 {
		time.AfterFunc(rand.N(50*time.Millisecond), stop)
	}
	o := l.ask("cancel", key)
	o.hold(l.plain[key].Acquire(ctx))
}

// hold works with a permit, and gives it back.
func (o *op) hold(p *semaphore.Permit, err error) {
	if err != nil {
		o.refused(err)
		return
	}
	o.note(crashtest.Record{Event: crashtest.Holds, Fence: p.Fence(), Permits: p.Permits(), Until: crashtest.ClockAt(p.Deadline())})
	doze(20 * time.Millisecond)
	o.release(p)
}

func (o *op) release(p *semaphore.Permit) {
	o.note(crashtest.Record{Event: crashtest.Leaving, Until: crashtest.ClockAt(p.Deadline())})
	_, err := p.Release(context.Background())
	o.ended(err)
}

// renew may hold a permit for longer than its lease.
func (l *load) renew(key string) {
	o := l.ask("renew", key)
	p, err := l.renewed[key].Acquire(l.ctx)
	if err != nil {
		o.refused(err)
		return
	}
	last := p.Deadline()
	o.note(crashtest.Record{Event: crashtest.Holds, Fence: p.Fence(), Permits: p.Permits(), Until: crashtest.ClockAt(last)})
	hold := rand.N(200 * time.Millisecond)
	if rand.IntN(100) == 0 {
		hold = lease + rand.N(lease)/2
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(hold); ; {
		select {
		case <-ticker.C:
			if d := p.Deadline(); d.After(last) {
				last = d
				o.note(crashtest.Record{Event: crashtest.Renewed, Until: crashtest.ClockAt(d)})
			}
			continue
		case <-over:
		case <-p.Done():
		}
		break
	}
	o.release(p)
}

// mutex runs code under WithMutex, or, if its context is to tell, WithMutexContext.
func (l *load) mutex(key string) {
	o := l.ask("mutex", key)
	ran := false
	code := func() {
		ran = true
		o.note(crashtest.Record{Event: crashtest.Holds, Permits: 1, Until: o.asked + int64(lease)})
		doze(20 * time.Millisecond)
		o.note(crashtest.Record{Event: crashtest.Leaving})
	}
	var err error
	if rand.IntN(2) == 0 {
		err = redsem.WithMutex(key, l.client, nil, code, settings(key, l.owner, false))
	} else {
		err = redsem.WithMutexContext(l.ctx, key, l.client, nil, func(context.Context) error {
			code()
			return nil
		}, settings(key, l.owner, true))
	}
	if ran {
		o.ended(err)
	} else {
		o.refused(err)
	}
}

// resize goes up and down, always on the one semaphore.
func (l *load) resize(string) {
	o := l.ask("resize", sized)
	o.ended(l.plain[sized].Resize(l.ctx, 1+rand.IntN(capacities[sized])))
}

func (l *load) inspect(key string) {
	o := l.ask("inspect", key)
	_, err := l.plain[key].Inspect(l.ctx)
	o.ended(err)
}

func (l *load) status(key string) {
	o := l.ask("status", key)
	_, err := l.plain[key].GetNumAvailableResources()
	o.ended(err)
}

// refused notes the end of an operation that got nothing.
func (o *op) refused(err error) {
	o.ended(err)
	if classOf(err) == "redis failed" {
		doze(50 * time.Millisecond)
	}
}

// doze sleeps for a random time, of that length at most; often not at all.
func doze(most time.Duration) {
	if d := rand.N(2 * most); d < most {
		time.Sleep(d)
	}
}

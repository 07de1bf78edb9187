package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// freeWithin is how long after the last fault and the last operation all is to be free:
// a lease, a claim window, which is no longer, and what a busy machine needs.
const freeWithin = 2*lease + 15*time.Second

// checkFree waits until nobody holds or waits, and looks at the keys then.
func (w *world) checkFree() {
	deadline := time.Now().Add(freeWithin)
	for _, name := range names {
		for {
			ctx, stop := context.WithDeadline(context.Background(), deadline.Add(patience))
			s, err := w.watch[name].Inspect(ctx)
			stop()
			if err == nil && s.Held == 0 && s.WaiterCount == 0 && s.Free == s.Capacity {
				break
			}
			if time.Now().After(deadline) {
				w.judge.accuse("%s is not free %v after the end: %v %v", name, freeWithin, s, err)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		w.checkKeys(name)
	}
}

// checkKeys requires that the keys of a free semaphore are whole.
func (w *world) checkKeys(name string) {
	k := "semaphore:{" + name + "}"
	if exists, _ := redis.Int(w.do("EXISTS", k), nil); exists == 0 {
		return // lost, and not used since
	}
	capacity, err := redis.Int(w.do("HGET", k, "capacity"), nil)
	held, err2 := redis.Int(w.do("HGET", k, "held"), nil)
	if err2 == redis.ErrNil {
		held, err2 = 0, nil
	}
	if err != nil || err2 != nil {
		w.judge.accuse("%s: the keys at the end: capacity %v, held %v", name, err, err2)
	}
	free := w.size("LLEN", k+":available")
	w.wantEmpty(name, "held", held)
	w.wantEmpty(name, "locked", w.size("HLEN", k+":locked"))
	w.wantEmpty(name, "leases", w.size("ZCARD", k+":leases"))
	w.wantEmpty(name, "queue", w.size("ZCARD", k+":queue"))
	if free != capacity {
		w.judge.accuse("%s: %d of %d permits are in the list at the end", name, free, capacity)
	}
}

func (w *world) size(command, key string) int {
	n, err := redis.Int(w.do(command, key), nil)
	if err != nil {
		w.must.Fatal(err)
	}
	return n
}

func (w *world) wantEmpty(name, what string, n int) {
	if n != 0 {
		w.judge.accuse("%s: at the end %s has %d, should have none", name, what, n)
	}
}

// drain works on the jobs that are left, and requires that none is missing.
func (w *world) drain() {
	for _, name := range []string{jobs, once} {
		for deadline := time.Now().Add(freeWithin + patience); ; {
			for time.Now().Before(deadline) && w.nodes[0].work(name, 100*time.Millisecond) {
			}
			s, err := w.queues[name].Inspect(context.Background())
			if err == nil && s.ReadyCount == 0 && s.WorkingCount == 0 {
				break
			}
			if time.Now().After(deadline) {
				w.judge.accuse("%s is not empty at the end: %v %v", name, s, err)
				break
			}
		}
		k := "semaphore:{" + name + "}"
		for what, n := range map[string]int{"jobs": w.size("HLEN", k+":jobs"), "locked": w.size("HLEN", k+":locked"),
			"leases": w.size("ZCARD", k+":leases"), "available": w.size("ZCARD", k+":available")} {
			w.wantEmpty(name, what, n)
		}
	}
	w.judge.settle()
	w.judge.missing(jobs)
}

// missing accuses a queue, which is empty, of the jobs that nobody was done with.
func (j *judge) missing(name string) {
	j.mu.Lock()
	missing := j.queues[name].missing()
	j.mu.Unlock()
	for _, m := range missing {
		j.accuse("%s: %s", name, fmt.Sprint("job lost: ", m))
	}
}

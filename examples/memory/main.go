// Command memory shows permits that are taken several at a time. A semaphore stands for
// 64 MiB of memory; each job takes what it needs. A large job is not starved by small
// ones that would fit while it waits: they wait behind it.
//
// It needs nothing but Go; with REDIS_URL it uses that Redis.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redsem/redsem/examples/internal/exampleredis"
	"github.com/redsem/redsem/semaphore"
)

const total = 64 // MiB

// job needs memory for some time.
type job struct {
	name string
	size int // MiB
	time time.Duration
}

// They come in this order. a and b leave 8 MiB, which c, d and e could use at once; but L
// came before them.
var jobs = []job{
	{"a", 32, 200 * time.Millisecond},
	{"b", 24, 500 * time.Millisecond},
	{"L", 60, 500 * time.Millisecond},
	{"c", 8, 300 * time.Millisecond},
	{"d", 8, 200 * time.Millisecond},
	{"e", 8, 400 * time.Millisecond},
}

func main() { exampleredis.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	r, err := exampleredis.Open(url)
	if err != nil {
		return err
	}
	defer r.Close()
	memory, err := semaphore.New(r.Key("memory"), r.Client(), nil, semaphore.Settings{
		MaxParallelResources: total,
		Expiration:           10 * time.Second, // the memory of a process that died is free then
		AutoRenew:            true,             // one that lives may take longer
	})
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	board := newBoard(out)
	start := make(chan struct{})
	for i, j := range jobs {
		wg.Go(func() {
			if err := j.run(ctx, memory, board, start); err != nil {
				fail(err)
			}
		})
		// The next one comes when this one has its memory or its place in the queue.
		if err := until(ctx, memory, func(s semaphore.Snapshot) bool { return s.HolderCount+s.WaiterCount == i+1 }); err != nil {
			return err
		}
	}
	board.say("now L waits for 60 MiB, and c, d and e behind it for 8 each, though 8 are free")
	close(start)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	board.say("in order of their fences: %s; never more than %d of %d MiB in use", board.order(), board.most, total)

	_, err = memory.AcquireN(ctx, total+1)
	if !errors.Is(err, semaphore.ErrExceedsCapacity) {
		return fmt.Errorf("more than all memory: %v", err)
	}
	board.say("who asks for %d need not wait: %v", total+1, err)
	return nil
}

// run waits for the memory, uses it, and gives it back.
func (j job) run(ctx context.Context, memory *semaphore.Semaphore, board *board, start <-chan struct{}) error {
	permit, err := memory.AcquireN(ctx, j.size)
	if err != nil {
		return err
	}
	board.takes(j, permit.Fence())
	select { // the first jobs work until all have come
	case <-start:
	case <-ctx.Done():
	}
	select {
	case <-time.After(j.time):
	case <-permit.Done(): // lost; Release says so
	case <-ctx.Done():
	}
	board.leaves(j)
	_, err = permit.Release(ctx)
	return err
}

// until looks at the semaphore until it is as wanted.
func until(ctx context.Context, s *semaphore.Semaphore, wanted func(semaphore.Snapshot) bool) error {
	for {
		snapshot, err := s.Inspect(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || wanted(snapshot) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

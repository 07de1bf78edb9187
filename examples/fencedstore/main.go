// Command fencedstore shows what a fence is for. A holder that stands still for longer
// than its lease does not know that it lost its permit; when it goes on it writes, late,
// what another holder has replaced. No lock can prevent that, but the store can:
// it refuses a fence that is older than one it has seen.
//
// It needs nothing but Go; with REDIS_URL it uses that Redis.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redsem/redsem/examples/internal/exampleredis"
	"github.com/redsem/redsem/semaphore"
)

func main() { exampleredis.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	r, err := exampleredis.Open(url)
	if err != nil {
		return err
	}
	defer r.Close()
	store := &Store{pool: r.Pool(), key: r.Key("store")}
	key := r.Key("fencedstore")

	// The lease is short, and nobody renews it, so that we need not wait for long.
	settings := semaphore.Settings{Expiration: time.Second}
	ash, err := semaphore.New(key, r.Client(), nil, settings)
	if err != nil {
		return err
	}
	birch, err := semaphore.New(key, r.Client(), nil, settings)
	if err != nil {
		return err
	}

	old, err := ash.Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ash    holds the mutex, with fence %d\n", old.Fence())
	if err := store.Write(ctx, old.Fence(), "draft of ash"); err != nil {
		return err
	}
	fmt.Fprintln(out, "ash    writes \"draft of ash\", and stands still: a long garbage collection, say")

	// Acquire returns when ash's lease has ended.
	young, err := birch.Acquire(ctx)
	if err != nil {
		return err
	}
	defer young.Release(ctx)
	fmt.Fprintf(out, "birch  holds the mutex, with fence %d\n", young.Fence())
	if err := store.Write(ctx, young.Fence(), "text of birch"); err != nil {
		return err
	}
	fmt.Fprintln(out, "birch  writes \"text of birch\"")
	// birch may work on for longer than its lease, and need not care: if it were
	// late, it would be the one to be refused.

	// A holder that is awake has permit.Done() to be told by, and would stop. One that
	// wakes in the middle of a write is past the place where it would look.
	err = store.Write(ctx, old.Fence(), "text of ash")
	if !errors.Is(err, ErrOldFence) {
		return fmt.Errorf("the late write was not refused: %v", err)
	}
	fmt.Fprintf(out, "ash    goes on, and writes \"text of ash\": refused\n       (%v)\n", err)
	if _, err := old.Release(ctx); !errors.Is(err, semaphore.ErrLost) {
		return fmt.Errorf("the loss was not noticed: %v", err)
	}
	fmt.Fprintln(out, "ash    releases its permit, and is told that it was lost")

	value, err := store.Read(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "store  holds %q\n", value)
	return nil
}

// Command leader shows how processes elect a leader: all of them acquire one mutex, and
// who gets it leads until it resigns, or loses its lease. The leader works in the
// permit's context, and so stops at once when it can't renew its lease any more, before
// another one leads.
//
// It needs nothing but Go; with REDIS_URL it uses that Redis. The candidates are
// goroutines, each with a client of its own as a process would have.
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

func main() {
	exampleredis.Main(func(ctx context.Context, out io.Writer, url string) error {
		_, err := run(ctx, out, url)
		return err
	})
}

// run has three terms: the first leader is cut off, the second resigns, the third leads
// to the end.
func run(ctx context.Context, out io.Writer, url string) ([]*term, error) {
	r, err := exampleredis.Open(url)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	key, terms := r.Key("leader"), make(chan *term)
	start := time.Now()
	var printing sync.Mutex
	say := func(text string, args ...any) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintf(out, "%3.1f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(text, args...))
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, name := range []string{"ash", "birch", "cedar"} {
		c := &candidate{name, r.Pool(), terms, say}
		wg.Go(func() {
			if err := c.campaign(ctx, key); !errors.Is(err, semaphore.ErrCanceled) {
				say("%-6s runs no more: %v", c.name, err)
			}
		})
	}
	var held []*term
	for _, finish := range []func(*term){
		func(t *term) { // its connections are gone for good, and so it can't renew
			say("%-6s is cut off from Redis", t.leader.name)
			t.leader.pool.Close()
		},
		func(t *term) { t.resign() },
		func(*term) { stop() },
	} {
		var t *term
		select {
		case t = <-terms:
		case <-ctx.Done():
			return held, ctx.Err()
		}
		held = append(held, t)
		time.Sleep(500 * time.Millisecond) // let it work a little
		finish(t)
		<-t.ended
	}
	return held, nil
}

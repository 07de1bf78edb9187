// Command fragileapi shows how a semaphore protects what can't stand many users. An API
// fails when more than 5 calls run at once; many workers call it, first as they like and
// then through a semaphore of capacity 5, with which no call fails.
//
// It needs nothing but Go; with REDIS_URL it uses that Redis. The workers are goroutines
// with several clients, as they would be processes on several machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redsem/redsem/examples/internal/exampleredis"
	"github.com/redsem/redsem/semaphore"
)

const (
	machines = 4
	workers  = 20 // on all machines together
	calls    = 200
)

func main() {
	exampleredis.Main(func(ctx context.Context, out io.Writer, url string) error {
		return run(ctx, out, url, work)
	})
}

// work is what the API does in a call.
func work(int) { time.Sleep(20 * time.Millisecond) }

// run calls the API both ways.
func run(ctx context.Context, out io.Writer, url string, work func(n int)) error {
	r, err := exampleredis.Open(url)
	if err != nil {
		return err
	}
	defer r.Close()
	var permits []*semaphore.Semaphore // the handle of each machine
	for key := r.Key("fragileapi"); len(permits) < machines; {
		s, err := semaphore.New(key, r.Client(), nil, semaphore.Settings{
			MaxParallelResources: limit,
			Expiration:           30 * time.Second, // the permit of a worker that died is back then
			AutoRenew:            true,             // with one that lives a call may take longer
		})
		if err != nil {
			return err
		}
		permits = append(permits, s)
	}

	api, err := newAPI(work)
	if err != nil {
		return err
	}
	defer api.close()
	// Some failures are enough to see.
	err = crowd(func() bool { return api.statistics().refused < workers }, func(int) error {
		return call(ctx, api.url)
	})
	if err != nil {
		return err
	}
	report(out, "as they like", api)

	protected, err := newAPI(work)
	if err != nil {
		return err
	}
	defer protected.close()
	var begun atomic.Int64
	err = crowd(func() bool { return begun.Add(1) <= calls }, func(worker int) error {
		permit, err := permits[worker%machines].Acquire(ctx)
		if err != nil {
			return err
		}
		err = call(permit.Context(), protected.url) // a call without a permit is broken off
		_, failure := permit.Release(ctx)
		return errors.Join(err, failure)
	})
	if err != nil {
		return err
	}
	report(out, "five at a time", protected)
	return nil
}

// crowd has all workers do something, again and again while there is more to do. A worker
// stops at its first error.
func crowd(more func() bool, do func(worker int) error) error {
	failures := make(chan error, workers)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for more() {
				if err := do(worker); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	return <-failures // or nil
}

// call calls the API. That it is refused is no error: the API counts it.
func call(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true // each call with a connection of its own
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func report(out io.Writer, how string, api *fragileAPI) {
	s := api.statistics()
	fmt.Fprintf(out, "%d workers, %s: %d calls, %d at once at most, %d failures\n",
		workers, how, s.accepted+s.refused, s.most, s.refused)
}

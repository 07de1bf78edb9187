// Command worker is a process that uses redsem in a role, until its standard input
// ends or it is killed. It writes what it does into a file, and "holds" on its standard
// output when it has got, or signalled, something for the first time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// role is what the goroutines of a process repeat.
type role struct {
	goroutines int
	renew      bool // Settings.AutoRenew
	play       func(*worker)
	once       bool // not repeated
}

var roles = map[string]role{
	"lock":     {goroutines: 3, play: (*worker).lock},
	"permit":   {goroutines: 3, play: (*worker).permit, renew: true},
	"wait":     {goroutines: 10, play: (*worker).wait},
	"weighted": {goroutines: 3, play: (*worker).weighted},
	"try":      {goroutines: 3, play: (*worker).try},
	"renew":    {goroutines: 1, play: (*worker).renew, renew: true},
	"mutex":    {goroutines: 3, play: (*worker).mutex},
	"cancel":   {goroutines: 6, play: (*worker).cancel},

	"signal":  {goroutines: 2, play: (*worker).signal},
	"consume": {goroutines: 4, play: (*worker).consume},
	"once":    {goroutines: 4, play: (*worker).consumeOnce},

	"pause permit":  {goroutines: 1, play: (*worker).pausePermit, once: true},
	"pause renewed": {goroutines: 1, play: (*worker).pausePermit, renew: true, once: true},
	"pause release": {goroutines: 1, play: (*worker).pauseRelease, once: true},
	"pause lock":    {goroutines: 1, play: (*worker).pauseLock, once: true},
	"pause mutex":   {goroutines: 1, play: (*worker).pauseMutex, once: true},
	"pause job":     {goroutines: 1, play: (*worker).pauseJob, once: true},
	"one permit":    {goroutines: 1, play: (*worker).permit, once: true},
	"one lock":      {goroutines: 1, play: (*worker).lock, once: true},
}

// worker is a process in its role.
type worker struct {
	crashtest.Part
	client    redisadapter.Redis
	semaphore *semaphore.Semaphore
	queue     *semaphore.Queue
	log       *crashtest.Log
	ctx       context.Context // ends with the standard input
	ops       atomic.Int64
	report    sync.Once
}

func main() {
	w := &worker{}
	if err := w.run(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func (w *worker) run() error {
	if len(os.Args) != 2 {
		return errors.New("the argument is the part, as JSON")
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &w.Part); err != nil {
		return err
	}
	r, ok := roles[w.Role]
	if !ok {
		return fmt.Errorf("no role %q", w.Role)
	}
	if w.Procs != 0 {
		runtime.GOMAXPROCS(w.Procs)
	}
	w.Settings.Owner = strconv.Itoa(w.Child)
	w.Settings.AutoRenew = r.renew
	w.Queue.Owner = w.Settings.Owner
	w.client = redigoadapter.New(redistest.UserPool(w.Addr))
	var err, err2, err3 error
	w.semaphore, err = semaphore.New(w.Key, w.client, nil, w.Settings)
	w.queue, err2 = semaphore.NewQueue(w.Key, w.client, nil, w.Queue)
	w.log, err3 = crashtest.OpenLog(w.File)
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	w.ctx = ctx
	go func() { // ends with the standard input
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var wg sync.WaitGroup
	for range r.goroutines {
		wg.Go(func() {
			for first := true; w.ctx.Err() == nil && (first || !r.once); first = false {
				r.play(w)
			}
		})
	}
	wg.Wait()
	return nil
}

// op is an operation of this process.
type op struct {
	w     *worker
	n     int64
	asked int64
}

// write appends a record of the operation, of now.
func (o *op) write(r crashtest.Record) {
	r.At, r.Op = crashtest.Clock(), o.n
	if err := o.w.log.Write(r); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	if r.Event == crashtest.Holds || r.Event == crashtest.Signalled {
		o.w.report.Do(func() { fmt.Println("holds") })
	}
}

// ask begins an operation.
func (w *worker) ask() *op {
	o := &op{w: w, n: w.ops.Add(1), asked: crashtest.Clock()}
	o.write(crashtest.Record{Event: crashtest.Asked})
	return o
}

// refused notes the end of an operation that got nothing: for one of these reasons, or
// it has failed.
func (o *op) refused(err error, allowed ...error) {
	r := crashtest.Record{Event: crashtest.Failed, Err: err.Error()}
	for _, reason := range allowed {
		if errors.Is(err, reason) {
			r.Event = crashtest.GaveUp
		}
	}
	o.write(r)
	if r.Event == crashtest.Failed {
		doze(50 * time.Millisecond)
	}
}

// ended notes what a release has answered.
func (o *op) ended(err error) {
	switch {
	case err == nil:
		o.write(crashtest.Record{Event: crashtest.Left})
	case errors.Is(err, semaphore.ErrNotHeld):
		o.write(crashtest.Record{Event: crashtest.Lost, Err: err.Error()})
	default:
		o.write(crashtest.Record{Event: crashtest.Failed, Err: err.Error()})
	}
}

// doze sleeps for a random time, of that length at most; often not at all.
func doze(most time.Duration) {
	if d := rand.N(2 * most); d < most {
		time.Sleep(d)
	}
}

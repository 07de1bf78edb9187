package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// silence is for how long a worker may hear nothing from Redis before it records
// that. Who is silent for less keeps its lease and its place in the queue.
const silence = 500 * time.Millisecond

// setup is what the parent tells a worker first; then come jobs.
type setup struct {
	Worker   string             `json:"worker"`
	Redis    string             `json:"redis"` // URL
	Key      string             `json:"key"`
	Settings semaphore.Settings `json:"settings"`
	Records  string             `json:"records"` // path of the file to write
	Begun    int64              `json:"begun"`   // ns since 1970
}

// worker is a process that does one job at a time, each with a permit of the
// semaphore.
type worker struct {
	journal   *journal
	pool      *redis.Pool
	semaphore *semaphore.Semaphore
}

func workerMain() int {
	// Ctrl-C in a terminal goes to all processes: the parent decides.
	signal.Ignore(os.Interrupt)
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo: worker:", err)
		return 1
	}
	return 0
}

// serve does jobs until the end of the orders, which is also the end of the
// parent, however it died: then there is nothing to finish.
func serve(orders io.Reader, parent io.Writer) error {
	decoder := json.NewDecoder(orders)
	var s setup
	if err := decoder.Decode(&s); err != nil {
		return err
	}
	jobs := make(chan job)
	go func() { // ends with the process
		for {
			var j job
			if decoder.Decode(&j) != nil {
				os.Exit(0)
			}
			jobs <- j
		}
	}()
	w, err := newWorker(s, parent)
	if err != nil {
		return err
	}
	if err := w.journal.note(record{Event: eventStarted}); err != nil {
		return err
	}
	go w.watch(context.Background()) // ends with the process
	for j := range jobs {
		if err := w.do(context.Background(), j); err != nil {
			return err
		}
	}
	return nil
}

func newWorker(s setup, parent io.Writer) (*worker, error) {
	w := &worker{pool: newPool(s.Redis)}
	clock := newClock(time.Unix(0, s.Begun))
	file, err := os.OpenFile(s.Records, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w.journal = &journal{worker: s.Worker, clock: clock, file: file, parent: parent}
	w.semaphore, err = semaphore.New(s.Key, redigoadapter.New(w.pool), logger.Func(w.log), s.Settings)
	return w, err
}

// log gets what the library tells. Its ticket proves when a request was queued:
// the worker itself learns nothing before its turn.
func (w *worker) log(level logger.Level, message string, fields ...any) {
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1].(type) {
		case error:
			message += ": " + value.Error()
		case int64:
			if fields[i] == "ticket" {
				_ = w.journal.note(record{Event: eventQueued, Ticket: value})
			}
		}
	}
	if level == logger.Error {
		_ = w.journal.note(record{Event: eventTrouble, Text: message})
	}
}

// watch asks Redis for a sign of life all the time, and records when there was none
// for long: because Redis, the network, or this process stood still. Whoever waits
// and is not heard of for the claim window, about 3 s, loses its place in the queue,
// and rightly so.
func (w *worker) watch(ctx context.Context) {
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	last := w.journal.clock.now()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		if !w.ping() {
			continue
		}
		now := w.journal.clock.now()
		if now-last > silence {
			_ = w.journal.note(record{Event: eventSilence, Since: last})
		}
		last = now
	}
}

func (w *worker) ping() bool {
	conn := w.pool.Get()
	defer conn.Close()
	_, err := redis.DoWithTimeout(conn, 5*time.Second, "PING")
	return err == nil
}

// do takes its turn, and does the job inside.
func (w *worker) do(ctx context.Context, j job) error {
	w.journal.begin(j.Package)
	permit, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	deadline := permit.Deadline()
	err = w.journal.note(record{Event: eventGot, Fence: permit.Fence(), Deadline: w.journal.clock.at(deadline)})
	if err != nil {
		return err
	}
	digest, err := j.hashAll(permit.Context(), func() error {
		if !permit.Deadline().After(deadline) {
			return nil
		}
		deadline = permit.Deadline()
		return w.journal.note(record{Event: eventRenewed, Deadline: w.journal.clock.at(deadline)})
	})
	return w.leave(ctx, permit, digest, err)
}

// acquire gets a permit, however long Redis can't be reached.
func (w *worker) acquire(ctx context.Context) (*semaphore.Permit, error) {
	for {
		if err := w.journal.note(record{Event: eventAsked}); err != nil {
			return nil, err
		}
		permit, err := w.semaphore.Acquire(ctx)
		if !errors.Is(err, semaphore.ErrRedis) {
			return permit, err
		}
		_ = w.journal.note(record{Event: eventTrouble, Text: err.Error()})
		time.Sleep(time.Second)
	}
}

// leave gives the permit back. If the lease was lost, because the machine stood
// still for longer, or if it can't be known, the parent has the job done again.
func (w *worker) leave(ctx context.Context, permit *semaphore.Permit, digest string, failure error) error {
	lost := errors.Is(context.Cause(permit.Context()), semaphore.ErrLost)
	if failure != nil && !lost {
		return failure
	}
	if !lost {
		if err := w.journal.note(record{Event: eventLeaving, Digest: digest}); err != nil {
			return err
		}
	}
	_, err := permit.Release(ctx)
	if lost || errors.Is(err, semaphore.ErrLost) || errors.Is(err, semaphore.ErrRedis) {
		return w.journal.note(record{Event: eventLost})
	}
	if err != nil {
		return err
	}
	return w.journal.note(record{Event: eventLeft})
}

func newPool(url string) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 3,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, url)
		},
	}
}

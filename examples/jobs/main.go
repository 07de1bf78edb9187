// Command jobs shows a queue of jobs with processes: a producer signals jobs, consumers
// wait for them. One consumer is killed over its work; its job is delivered again, and
// every job gets done.
//
// It needs nothing but Go; with REDIS_URL it uses that Redis. The binary runs itself
// again as producer and consumers.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redsem/redsem/examples/internal/exampleredis"
)

func main() {
	if isChild() {
		os.Exit(child())
	}
	exampleredis.Main(run)
}

func run(ctx context.Context, out io.Writer, url string) error {
	r, err := exampleredis.Open(url)
	if err != nil {
		return err
	}
	defer r.Close()
	name := r.Key("jobs")
	q, closePool, err := newQueue(r.URL, name)
	if err != nil {
		return err
	}
	defer closePool()

	crew := &crew{url: r.URL, queue: name, events: make(chan report)}
	defer crew.dismiss()
	for _, name := range []string{"ash", "birch", "cedar", "producer"} {
		if err := crew.hire(name); err != nil {
			return err
		}
	}
	start := time.Now()
	say := func(who, text string, args ...any) {
		fmt.Fprintf(out, "%4.1f s  %-8s  %s\n", time.Since(start).Seconds(), who, fmt.Sprintf(text, args...))
	}
	did := make(map[string]bool)
	killed, dead := "", false
	for len(did) < jobs || !dead {
		var e report
		select {
		case e = <-crew.events:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case e.err != nil && e.who != killed:
			return fmt.Errorf("%s: %w", e.who, e.err)
		case e.err != nil:
			dead = true
			say(e.who, "is dead (%v): its job comes back when its 2 s are over", e.err)
		case e.What == "did" && did[e.Job]:
			return fmt.Errorf("%s was done twice", e.Job)
		case e.What == "did":
			did[e.Job] = true
			say(e.who, "did %s", e.Job)
		case e.Deliveries > 1:
			say(e.who, "%s %s, delivery %d", e.What, e.Job, e.Deliveries)
		default:
			say(e.who, "%s %s", e.What, e.Job)
		}
		if e.What == "begins" && e.Job == fatal && killed == "" {
			killed = e.who
			if err := crew.kill(killed); err != nil {
				return err
			}
		}
	}
	s, err := q.Inspect(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d jobs were done, each once; left in the queue: %d ready, %d worked on\n",
		len(did), s.ReadyCount, s.WorkingCount)
	return nil
}

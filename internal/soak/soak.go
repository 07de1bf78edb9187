package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
)

// config is what a soak is told.
type config struct {
	duration time.Duration
	seed     uint64
	nodes    int // clients in this process
	children int
	players  int // goroutines of a client
	verbose  bool
	out      io.Writer
}

const (
	// settlePause is how often the records are judged.
	settlePause = 250 * time.Millisecond

	// warmUp is how long the load runs before the first sample, at most.
	warmUp = 5 * time.Second
)

// soak runs the load, measures, runs it again under faults until the time is over or ctx
// ends, and requires then that all is free and nothing lost.
func soak(ctx context.Context, c config) (r report, err error) {
	began := crashtest.Clock()
	say := func(format string, args ...any) {
		if c.verbose {
			fmt.Fprintf(c.out, "%10.3fs  %s\n", time.Duration(crashtest.Clock()-began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	j := newJudge(func(v violation) {
		say("VIOLATION at %.3fs: %s", time.Duration(v.at-began).Seconds(), v.text)
	})
	w, err := newWorld(c, j)
	if err != nil {
		return r, err
	}
	defer w.close()
	defer w.must.cleanUp()
	defer catch(&err)
	defer j.settling()()
	if err := w.start(c.players); err != nil {
		return r, err
	}
	doUntil(ctx, min(c.duration/6, warmUp))
	w.stop()
	start := w.sample(func(sample) bool { return true })
	say("warm: %+v", start)

	if err := w.start(c.players); err != nil {
		return r, err
	}
	timed, stop := context.WithTimeout(ctx, c.duration)
	defer stop()
	in := &injector{world: w, rand: rand.New(rand.NewPCG(c.seed, 0)), ctx: timed, said: say, counts: make(map[string]int)}
	from := time.Now()
	if err := in.run(); err != nil {
		return r, err
	}
	took := time.Since(from)
	say("the faults are over")
	w.stop()
	say("the load is over")
	w.checkFree()
	w.drain()
	say("all is free; %s", w.biggest())
	end := w.sample(start.within)
	for _, text := range start.growth(end) {
		j.accuse("%s", text)
	}
	return newReport(c, j, took, began, in.counts, start, end), nil
}

// doUntil lets the load run.
func doUntil(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// settling judges every now and then, until the function that it answers is called.
func (j *judge) settling() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with quit
		defer close(ended)
		ticker := time.NewTicker(settlePause)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				j.settle()
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// Command demo shows redsem at work: processes share a semaphore of capacity 2,
// one of them is killed while it holds a permit, and the others go on. At the end
// it draws what happened, and checks it by the records that the processes made.
//
// It needs nothing but Go. With REDIS_URL it uses that Redis, under a key of its
// own that it deletes at the end.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// roleVariable makes the binary, which runs itself again, a worker.
const roleVariable = "REDSEM_DEMO_ROLE"

const roleWorker = "worker"

// exitInterrupted is the code of a program that Ctrl-C has ended.
const exitInterrupted = 130

func main() {
	if os.Getenv(roleVariable) == roleWorker {
		os.Exit(workerMain())
	}
	os.Exit(demoMain())
}

func demoMain() int {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	// A reader that goes away, such as head, ends the demo like Ctrl-C; the signal
	// that comes with it would leave no time to clean up.
	signal.Ignore(syscall.SIGPIPE)
	out := newScreen(os.Stdout)
	out.failed = stop
	passed, err := run(ctx, out)
	switch {
	case err != nil && ctx.Err() != nil:
		out.line("")
		out.line("Interrupted: the processes are ended, and nothing is left behind.")
		return exitInterrupted
	case err != nil:
		out.clear()
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	case !passed:
		return 1
	}
	return 0
}

// Command soak runs everything that redsem has at once, against one redis-server and
// under all faults, for as long as it is told, and reports what was wrong. The same mixed
// load runs in clients of this process, each with a pool behind a proxy of its own, and in
// child processes, which are killed now and then; see load.go, faults.go and judge.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

// run answers the exit code: 1 if something was wrong.
func run() int {
	if part := os.Getenv(childEnv); part != "" {
		return runChild(part)
	}
	c := config{nodes: 4, children: 3, players: 10, out: os.Stdout}
	flag.DurationVar(&c.duration, "duration", time.Minute, "how long, without the start and the end")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "what the faults are drawn from")
	flag.BoolVar(&c.verbose, "v", false, "print each fault and violation when it happens")
	flag.Parse()
	if os.Getenv(innerEnv) == "" {
		return lead()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends it at once
	fmt.Fprintf(c.out, "soak for %v, seed %d\n", c.duration, c.seed)
	r, err := soak(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	r.print(c.out)
	if r.wrong > 0 {
		return 1
	}
	return 0
}

// innerEnv is the variable that tells the process that it is started by lead.
const innerEnv = "REDSEM_SOAK_INNER"

// lead runs this program again in a process group of its own, lest Ctrl-C ends the
// redis-server and the children too, and hands signals on.
func lead() int {
	path, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	cmd := exec.Command(path, os.Args[1:]...)
	cmd.Env = append(os.Environ(), innerEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	go func() { // ends with the process
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1
}

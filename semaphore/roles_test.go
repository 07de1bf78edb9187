package semaphore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// The test binary runs itself again as other processes, each in a role.
const (
	roleVariable = "REDSEM_TEST_ROLE"
	partVariable = "REDSEM_TEST_PART"
)

// part is what a process in a role is told.
type part struct {
	Addr       string
	Key        string
	Settings   semaphore.Settings
	Goroutines int
	Cycles     int
	Shift      time.Duration // of its clock
	Queue      semaphore.QueueSettings
}

// roles are what a process can play. It ends when its standard input does, at the
// latest.
var roles = map[string]func(part, *actor) error{
	"cycle": playCycle,
	"hold":  playHold,
	"wait":  playWait,
	"watch": playWatch,
	"try":   playTry,

	"consume": playConsume,
}

// actor is a process in its role.
type actor struct {
	semaphore *semaphore.Semaphore
	queue     *semaphore.Queue
	redis     *redis.Pool
	orders    *bufio.Scanner
	mu        sync.Mutex // guards standard output
}

func (a *actor) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func playRole(role string) int {
	var p part
	if err := json.Unmarshal([]byte(os.Getenv(partVariable)), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if p.Shift != 0 {
		semaphore.ShiftClock(p.Shift)
	}
	pool := redistest.NewPool(p.Addr, 0)
	client := redigoadapter.New(redistest.UserPool(p.Addr))
	s, err := semaphore.New(p.Key, client, nil, p.Settings)
	q, err2 := semaphore.NewQueue(p.Key, client, nil, p.Queue)
	if err = errors.Join(err, err2); err == nil {
		err = roles[role](p, &actor{semaphore: s, queue: q, redis: pool, orders: bufio.NewScanner(os.Stdin)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playCycle locks and unlocks in many goroutines, and counts in Redis how many
// are inside.
func playCycle(p part, a *actor) error {
	inside := "inside:" + p.Key
	var wg sync.WaitGroup
	failures := make(chan error, p.Goroutines)
	for range p.Goroutines {
		wg.Go(func() {
			conn := a.redis.Get()
			defer conn.Close()
			for range p.Cycles {
				token, err := a.semaphore.Lock()
				if err != nil {
					failures <- err
					return
				}
				n, err := redis.Int(conn.Do("INCR", inside))
				if err == nil && n > p.Settings.MaxParallelResources {
					err = fmt.Errorf("%d inside", n)
				}
				conn.Do("DECR", inside)
				if unlock := a.semaphore.Unlock(token); err == nil {
					err = unlock
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	return <-failures
}

// playHold acquires a permit, says so, and holds it.
func playHold(_ part, a *actor) error {
	permit, err := a.semaphore.Acquire(context.Background())
	if err != nil {
		return err
	}
	a.say("held %s", permit.Token())
	for a.orders.Scan() {
	}
	_, err = permit.Release(context.Background())
	return err
}

// playWatch acquires a permit, says so, and answers each order: "ask" with whether it
// believes that it holds, "await" when it knows that it does not.
func playWatch(_ part, a *actor) error {
	permit, err := a.semaphore.Acquire(context.Background())
	if err != nil {
		return err
	}
	a.say("held %s", permit.Token())
	for a.orders.Scan() {
		if a.orders.Text() == "await" {
			<-permit.Done()
		}
		a.say("%v", permit.Context().Err() == nil && time.Now().Before(permit.Deadline()))
	}
	return nil
}

// playTry answers "try" with the outcome of TryLock, "unlock TOKEN" with that of
// Unlock, "holds TOKEN" with that of IsResourceLocked.
func playTry(_ part, a *actor) error {
	for a.orders.Scan() {
		order, token, _ := strings.Cut(a.orders.Text(), " ")
		var err error
		var answer any
		switch order {
		case "try":
			answer, err = a.semaphore.TryLock()
		case "unlock":
			err = a.semaphore.Unlock(token)
		case "holds":
			answer, err = a.semaphore.IsResourceLocked(token)
		}
		if err != nil {
			answer = err
		}
		a.say("%v", answer)
	}
	return nil
}

// playWait waits in many goroutines, and notes the tokens in Redis in the order
// in which they hold. Every tenth goroutine is cancelled by the order "cancel",
// every tenth times out.
func playWait(p part, a *actor) error {
	canceled, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range p.Goroutines {
		wg.Go(func() {
			ctx := context.Background()
			switch i % 10 {
			case 3:
				ctx = canceled
			case 6:
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, 3*time.Second)
				defer stop()
			}
			permit, err := a.semaphore.Acquire(ctx)
			if errors.Is(err, semaphore.ErrCanceled) || errors.Is(err, semaphore.ErrTimeout) {
				a.say("gave up")
				return
			}
			if err != nil {
				a.say("failed %v", err)
				return
			}
			conn := a.redis.Get()
			defer conn.Close()
			if _, err := conn.Do("RPUSH", "order:"+p.Key, permit.Token()); err != nil {
				a.say("failed %v", err)
			}
			if _, err := permit.Release(ctx); err != nil {
				a.say("failed %v", err)
			}
		})
	}
	go func() {
		for a.orders.Scan() {
			cancel()
		}
	}()
	wg.Wait()
	cancel()
	a.say("done")
	return nil
}

// quitters is how many of so many goroutines of playWait give up.
func quitters(goroutines int) (n int) {
	for i := range goroutines {
		if i%10 == 3 || i%10 == 6 {
			n++
		}
	}
	return n
}

// child is a process in a role, seen from the test.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string   // what it says; closed at its end
	ended chan struct{} // closed when it has been waited for
	err   error         // of its end; read after ended
}

// spawn runs a process in a role. It is killed with the test, at the latest.
func spawn(t *testing.T, role string, p part) *child {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	c := &child{t: t, cmd: exec.Command(exe), lines: make(chan string, 10000), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVariable+"="+role, partVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() { // ends with the process
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
		close(c.lines)
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(c.kill)
	return c
}

// kill ends the process with SIGKILL and waits until it is gone.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.ended
}

// finish closes the process's input and waits for its good end.
func (c *child) finish() {
	c.t.Helper()
	c.stdin.Close()
	select {
	case <-c.ended:
		require.NoError(c.t, c.err)
	case <-time.After(10 * patience):
		c.t.Fatal("the child process does not end")
	}
}

// order tells the process something.
func (c *child) order(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.stdin, text+"\n")
	require.NoError(c.t, err)
}

// hear waits for the next thing that the process says.
func (c *child) hear() string {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		require.True(c.t, ok, "the child process has ended")
		return line
	case <-time.After(4 * patience):
		c.t.Fatal("the child process says nothing")
		return ""
	}
}

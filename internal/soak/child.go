package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redsem/redsem/internal/crashtest"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// childEnv is the variable that makes this program a child; it holds its childPart.
const childEnv = "REDSEM_SOAK_CHILD"

// beat is how often a child says that all it did before is written.
const beat = 100 * time.Millisecond

// childPart is what a child is told.
type childPart struct {
	Source  int
	Addr    string
	Players int
}

// runChild plays until the standard input ends; the records go to the standard output.
func runChild(text string) int {
	var part childPart
	if err := json.Unmarshal([]byte(text), &part); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	write := func(r record) {
		mu.Lock()
		defer mu.Unlock()
		r.At = crashtest.Clock()
		line, _ := json.Marshal(r)
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			os.Exit(1)
		}
	}
	pool := redistest.NewPool(part.Addr, 0)
	l, err := newLoad(context.Background(), part.Source, redigoadapter.New(pool), "child-"+strconv.Itoa(part.Source), write)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	l.start(part.Players)
	go func() { // ends with the process
		for range time.Tick(beat) {
			write(record{Record: crashtest.Record{Event: alive}, Source: part.Source})
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	l.stop()
	l.players.Wait()
	return 0
}

// child is a place for child processes: when one is killed, another one follows. One
// goroutine at a time may use it.
type child struct {
	judge   *judge
	addr    string
	players int

	source int
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer  // read after ended
	ended  chan struct{} // closed when all records have been read and the process is waited for
}

// start runs a process.
func (c *child) start() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	c.source = c.judge.source(true)
	text, err := json.Marshal(childPart{Source: c.source, Addr: c.addr, Players: c.players})
	if err != nil {
		return err
	}
	c.stderr.Reset()
	c.cmd = exec.Command(path)
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := c.cmd.StdoutPipe()
	if err == nil {
		c.stdin, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		c.judge.end(c.source, crashtest.Clock())
		return err
	}
	c.ended = make(chan struct{})
	go func(source int, ended chan struct{}) { // ends with the process
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil { // a line without an end was torn by the death
				break
			}
			c.judge.read(line, source)
		}
		c.cmd.Wait()
		c.judge.end(source, crashtest.Clock())
		close(ended)
	}(c.source, c.ended)
	return nil
}

// kill ends the process with SIGKILL, and waits until it is gone. It is an error if it had
// ended before.
func (c *child) kill() error {
	select {
	case <-c.ended:
		return c.failed()
	default:
	}
	c.cmd.Process.Kill()
	<-c.ended
	return nil
}

// finish lets the process end by itself; if it does not, it is killed.
func (c *child) finish(patience time.Duration) error {
	c.stdin.Close()
	select {
	case <-c.ended:
		return c.failed()
	case <-time.After(patience):
		c.cmd.Process.Kill()
		<-c.ended
		return fmt.Errorf("a child does not end after %v: %s", patience, c.tail())
	}
}

// failed says what is wrong with the end of a process that was not killed.
func (c *child) failed() error {
	if c.cmd.ProcessState.Success() && c.stderr.Len() == 0 {
		return nil
	}
	return fmt.Errorf("a child has ended by itself: %v: %s", c.cmd.ProcessState, c.tail())
}

func (c *child) tail() string {
	text := c.stderr.Bytes()
	return string(text[:min(len(text), 2000)])
}

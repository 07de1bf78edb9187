package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// crew is the worker processes.
type crew struct {
	workers []*member
	news    chan news     // from all workers
	over    chan struct{} // closed when nobody listens to news any more
	readers sync.WaitGroup
}

// member is a worker as the parent sees it. Only the parent's loop uses it.
type member struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	orders *json.Encoder

	job      job           // that it was given last
	given    int           // jobs so far
	state    string        // its last event
	ticket   int64         // if it is queued
	got      time.Duration // when it got its last permit
	deadline time.Duration // of its last permit
	idle     bool          // there was no job for it
	dead     bool
}

// news is a record that a worker made or, at the end, how its process ended.
type news struct {
	from  *member
	ended bool
	err   error
	record
}

// hire starts a process for each name. Their records go to files in a folder.
func hire(names []string, s setup, folder string) (*crew, error) {
	c := &crew{news: make(chan news), over: make(chan struct{})}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s.Worker, s.Records = name, filepath.Join(folder, name+".jsonl")
		if err := c.start(binary, s); err != nil {
			c.dismiss()
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
	}
	return c, nil
}

func (c *crew) start(binary string, s setup) error {
	m := &member{name: s.Worker, cmd: exec.Command(binary)}
	m.cmd.Env = append(os.Environ(), roleVariable+"="+roleWorker)
	m.cmd.Stderr = os.Stderr
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The pipe to the worker ends when this process does, even by SIGKILL: that
	// ends the worker.
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	c.workers = append(c.workers, m)
	c.readers.Go(func() { c.read(m, stdout) })
	m.orders = json.NewEncoder(m.stdin)
	return m.orders.Encode(s)
}

// read hands on what a worker says, until its process ends.
func (c *crew) read(m *member, stdout io.Reader) {
	decoder := json.NewDecoder(stdout)
	for {
		n := news{from: m}
		if err := decoder.Decode(&n.record); err != nil {
			_, _ = io.Copy(io.Discard, stdout)
			break
		}
		c.tell(n)
	}
	c.tell(news{from: m, ended: true, err: m.cmd.Wait()})
}

func (c *crew) tell(n news) {
	select {
	case c.news <- n:
	case <-c.over:
	}
}

// give hands a worker its next job. If it has died, that is in the news.
func (m *member) give(j job) {
	m.job = j
	m.given++
	_ = m.orders.Encode(j)
}

// finish ends the workers, which have nothing to do any more, in peace.
func (c *crew) finish() error {
	for _, m := range c.workers {
		m.stdin.Close()
	}
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	for !c.allDead() {
		select {
		case n := <-c.news:
			if n.ended {
				n.from.dead = true
				if n.err != nil {
					return fmt.Errorf("%s: %w", n.from.name, n.err)
				}
			}
		case <-patience.C:
			return errors.New("a worker does not end")
		}
	}
	return nil
}

func (c *crew) allDead() bool {
	for _, m := range c.workers {
		if !m.dead {
			return false
		}
	}
	return true
}

// dismiss kills all workers that still run, and waits until they are gone.
func (c *crew) dismiss() {
	close(c.over)
	for _, m := range c.workers {
		_ = m.cmd.Process.Kill()
	}
	c.readers.Wait()
}

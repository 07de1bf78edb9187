package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/redsem/redsem/semaphore"
)

// roleVariable makes the binary, which runs itself again, a child with that role.
const roleVariable = "REDSEM_JOBS_ROLE"

// role is what a child is told.
type role struct {
	Name, Redis, Queue string
}

// event is what a child says on its standard output, in JSON.
type event struct {
	What       string // begins, did, lost, signalled
	Job        string
	Deliveries int
}

// report is an event with the child that it is of; with err, the child has failed.
type report struct {
	event
	who string
	err error
}

// crew is the children.
type crew struct {
	url, queue string
	events     chan report

	members []*member
	readers sync.WaitGroup
}

type member struct {
	name  string
	cmd   *exec.Cmd
	leash io.WriteCloser // its standard input; the child leaves when it is closed
}

// hire starts a child. A goroutine forwards its events until the child has ended.
func (c *crew) hire(name string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	told, err := json.Marshal(role{name, c.url, c.queue})
	if err != nil {
		return err
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(told))
	cmd.Stderr = os.Stderr
	leash, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.members = append(c.members, &member{name, cmd, leash})
	c.readers.Go(func() {
		for lines := json.NewDecoder(said); ; {
			var e event
			if lines.Decode(&e) != nil {
				break // no more, or half of one from a child that was killed
			}
			c.events <- report{event: e, who: name}
		}
		if err := cmd.Wait(); err != nil {
			c.events <- report{who: name, err: err}
		}
	})
	return nil
}

// kill is kill -9: the child can do nothing about it.
func (c *crew) kill(name string) error {
	for _, m := range c.members {
		if m.name == name {
			return m.cmd.Process.Kill()
		}
	}
	return fmt.Errorf("there is no %s", name)
}

// dismiss lets all children leave, and waits until they have.
func (c *crew) dismiss() {
	for _, m := range c.members {
		m.leash.Close()
	}
	go func() { // ends with the children
		c.readers.Wait()
		close(c.events)
	}()
	for range c.events { // nobody listens any more
	}
}

func isChild() bool { return os.Getenv(roleVariable) != "" }

// child is the main function of a child.
func child() (code int) {
	var r role
	err := json.Unmarshal([]byte(os.Getenv(roleVariable)), &r)
	if err == nil {
		err = r.play()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
		return 1
	}
	return 0
}

func (r role) play() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin) // until the parent lets go, or is dead
		cancel()
	}()
	q, closePool, err := newQueue(r.Redis, r.Queue)
	if err != nil {
		return err
	}
	defer closePool()
	said := json.NewEncoder(os.Stdout)
	act := consume
	if r.Name == "producer" {
		act = produce
	}
	err = act(ctx, q, func(e event) { said.Encode(e) })
	if errors.Is(err, semaphore.ErrCanceled) {
		return nil
	}
	return err
}

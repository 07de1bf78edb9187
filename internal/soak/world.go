package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// patience is how long to wait for what should come soon, on any machine.
const patience = 30 * time.Second

// world is all that takes part in a soak.
type world struct {
	judge    *judge
	server   *redistest.Server
	nodes    []*node
	children []*child
	proxies  []*faultproxy.Proxy // of nodes and children
	direct   *redis.Pool         // to the server, by no proxy
	watch    map[string]*semaphore.Semaphore
	queues   map[string]*semaphore.Queue
	must     *must
	ctx      context.Context // of all waits of the nodes
	cancel   context.CancelFunc
}

func newWorld(c config, j *judge) (*world, error) {
	server, err := redistest.New("--appendonly", "yes", "--appendfsync", "no")
	if err != nil {
		return nil, err
	}
	w := &world{judge: j, server: server, must: &must{}, direct: redistest.NewPool(server.Addr, 0),
		watch: make(map[string]*semaphore.Semaphore), queues: make(map[string]*semaphore.Queue)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for range c.nodes {
		n, err := newNode(w.ctx, server.Addr, j)
		if err != nil {
			w.close()
			return nil, err
		}
		w.nodes, w.proxies = append(w.nodes, n), append(w.proxies, n.proxy)
	}
	for range c.children {
		p, err := faultproxy.New(server.Addr)
		if err != nil {
			w.close()
			return nil, err
		}
		w.proxies = append(w.proxies, p)
		w.children = append(w.children, &child{judge: j, addr: p.Addr(), players: max(1, c.players/2)})
	}
	client := redigoadapter.New(w.direct)
	for _, key := range names {
		if w.watch[key], err = semaphore.New(key, client, nil, settings(key, "watch", false)); err != nil {
			w.close()
			return nil, err
		}
	}
	for _, key := range []string{jobs, once} {
		if w.queues[key], err = semaphore.NewQueue(key, client, nil, queueSettings(key, "watch", false)); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// close ends everything.
func (w *world) close() {
	w.cancel()
	for _, c := range w.children {
		if c.ended != nil {
			c.cmd.Process.Kill()
			<-c.ended
		}
	}
	for _, n := range w.nodes {
		n.players.Wait()
		n.pool.Close()
	}
	for _, p := range w.proxies {
		p.Close()
	}
	w.direct.Close()
	w.server.Close()
}

// start sets all players to work.
func (w *world) start(players int) error {
	for _, n := range w.nodes {
		n.start(players)
	}
	for _, c := range w.children {
		if err := c.start(); err != nil {
			return err
		}
	}
	return nil
}

// stop lets all players end what they do. Those that do not, without a fault, are accused,
// and cancelled.
func (w *world) stop() {
	ended := make(chan struct{})
	for _, n := range w.nodes {
		n.stop()
	}
	go func() { // ends with the players
		for _, n := range w.nodes {
			n.players.Wait()
		}
		close(ended)
	}()
	for _, c := range w.children {
		if err := c.finish(waitBound + patience); err != nil {
			w.judge.accuse("%v", err)
		}
	}
	select {
	case <-ended:
	case <-time.After(waitBound + patience):
		w.judge.settle()
		w.judge.stuck()
		w.cancel()
		<-ended
	}
	w.judge.settle()
}

// inspect takes a step on a semaphore or queue.
func (w *world) inspect(name string) (err error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if q := w.queues[name]; q != nil {
		_, err = q.Inspect(ctx)
	} else {
		_, err = w.watch[name].Inspect(ctx)
	}
	return err
}

// do sends one command that must succeed, on a connection of its own.
func (w *world) do(command string, args ...any) any {
	conn, err := redis.Dial("tcp", w.server.Addr, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience))
	if err != nil {
		w.must.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(command, args...)
	if err != nil {
		w.must.Fatal(fmt.Errorf("%s: %w", command, err))
	}
	return reply
}

// must is what stands for a test in the helpers of tests: what fails panics, with a
// failure.
type must struct {
	testing.TB
	cleanups []func()
}

type failure string

func (m *must) Helper()                           {}
func (m *must) Fatal(args ...any)                 { panic(failure(fmt.Sprint(args...))) }
func (m *must) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
func (m *must) Cleanup(f func())                  { m.cleanups = append(m.cleanups, f) }

func (m *must) cleanUp() {
	for _, f := range m.cleanups {
		f()
	}
	m.cleanups = nil
}

package semaphore_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// linkFaults are what may happen to a connection while a request is under way: it breaks
// before the server has seen the request, or after it has done what was asked and before
// the answer comes; and either is told to the client, or it is told nothing.
var linkFaults = map[string]struct {
	done bool // the server has done what it was asked
	trap func(*faultproxy.Proxy, string) <-chan struct{}
}{
	"request cut":     {false, (*faultproxy.Proxy).CutRequest},
	"reply cut":       {true, (*faultproxy.Proxy).CutReply},
	"request to none": {false, (*faultproxy.Proxy).SilenceRequest},
	"reply to none":   {true, (*faultproxy.Proxy).SilenceReply},
}

// lossyLink is a client on a link of its own, that breaks as the next request of one step
// is under way, on a real connection to the shared server.
type lossyLink struct {
	redisadapter.Redis
	t       *testing.T
	name    string // of the semaphore or queue
	step    string // or "pop"
	done    bool   // the server does what it is asked
	trap    func(text string) <-chan struct{}
	control redis.Conn // beside the link

	armed  atomic.Bool
	sprung <-chan struct{} // read after broken
	broken chan struct{}   // closed when sprung is set
}

// Identity tells these clients apart.
func (l *lossyLink) Identity() any { return l }

// arm has the next request of the step broken.
func (l *lossyLink) arm() { l.armed.Store(true) }

func (l *lossyLink) Eval(ctx context.Context, s *redisadapter.Script, keys, args []string) (any, error) {
	if stepOf(s) == l.step && l.armed.CompareAndSwap(true, false) {
		conn := server.Dial(l.t)
		_, err := conn.Do("SCRIPT", "LOAD", s.Source()) // else its answer may be NOSCRIPT
		if err != nil {
			return nil, err
		}
		l.set(s.SHA())
	}
	return l.Redis.Eval(ctx, s, keys, args)
}

func (l *lossyLink) BLPop(ctx context.Context, key string, timeout time.Duration) (string, bool, error) {
	if l.step == "pop" && l.armed.CompareAndSwap(true, false) {
		l.set(key)
	}
	return l.Redis.BLPop(ctx, key, timeout)
}

func (l *lossyLink) set(text string) {
	l.sprung = l.trap(text)
	close(l.broken)
}

// awaitFault waits until it has happened: a test that passes without it shows nothing.
func (l *lossyLink) awaitFault() {
	l.t.Helper()
	soon(l.t, l.broken) // else the request was not under way
	soon(l.t, l.sprung)
}

// semaphore is a handle on the link, or, directly, one beside it.
func (l *lossyLink) semaphore(settings ...semaphore.Settings) (link, direct *semaphore.Semaphore) {
	l.t.Helper()
	link, err := semaphore.New(l.name, l, nil, settings...)
	require.NoError(l.t, err)
	direct, err = semaphore.New(l.name, adapter(l.t, server.Addr), nil, settings...)
	require.NoError(l.t, err)
	return link, direct
}

// queue is semaphore for a queue of jobs.
func (l *lossyLink) queue(settings ...semaphore.QueueSettings) (link, direct *semaphore.Queue) {
	l.t.Helper()
	link, err := semaphore.NewQueue(l.name, l, nil, settings...)
	require.NoError(l.t, err)
	direct, err = semaphore.NewQueue(l.name, adapter(l.t, server.Addr), nil, settings...)
	require.NoError(l.t, err)
	return link, direct
}

// lostStep is what is done on a link that breaks, and what must come of it.
type lostStep struct {
	name, step string
	run        func(*testing.T, *lossyLink)
}

// Whatever becomes of the connection while a step is under way: it is as if nothing had
// happened. All run at once, for they wait most of the time.
func TestLostStepIsMadeUpFor(t *testing.T) {
	var ended sync.WaitGroup
	for fault, f := range linkFaults {
		for _, c := range slices.Concat(lostSemaphoreSteps, lostQueueSteps) {
			ended.Go(func() {
				t.Run(c.name+"/"+fault, func(t *testing.T) {
					proxy := faultproxy.Start(t, server.Addr)
					l := &lossyLink{
						Redis: userAdapter(t, proxy.Addr()), t: t, name: t.Name(), step: c.step, done: f.done, broken: make(chan struct{}),
						trap:    func(text string) <-chan struct{} { return f.trap(proxy, text) },
						control: server.Dial(t),
					}
					left, err := redis.Values(l.control.Do("KEYS", key(l.name, "*"))) // by an earlier run
					require.NoError(t, err)
					if len(left) > 0 {
						_, err = l.control.Do("DEL", left...)
						require.NoError(t, err)
					}
					c.run(t, l)
					l.awaitFault()
				})
			})
		}
	}
	ended.Wait()
	await(t, func() bool { return semaphore.LiveHubs() == 0 }) // leaves are sent once more
}

// Package adaptertest proves that an implementation of redisadapter.Redis keeps
// the contract that redsem relies on. A test of the implementation runs it against
// a real server:
//
//	func TestContract(t *testing.T) {
//		adaptertest.Run(t, addr, func(t *testing.T, addr string) redisadapter.Redis {
//			client := … // a client of the server at addr
//			t.Cleanup(func() { client.Close() })
//			return myadapter.New(client)
//		})
//	}
package adaptertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/redisadapter"
)

const (
	// patience is the longest that a test waits for what should come soon.
	patience = 30 * time.Second

	// soon bounds what a context ends. It is less than the 3 s that are the
	// read timeout of many clients, so that such a timeout can't pass for
	// the end of the context.
	soon = 2500 * time.Millisecond

	// longBlock is longer than a blocking pop lasts if such a read timeout,
	// which is meant for other commands, ends it.
	longBlock = 3300 * time.Millisecond
)

// NewClient makes a client of the server at addr, host:port, and registers with
// t.Cleanup what closes it. addr may be that of a proxy which loses the
// connection on purpose.
type NewClient func(t *testing.T, addr string) redisadapter.Redis

// Run proves the contract on the Redis server at addr (6.0 or later, without a
// password), one subtest for each property. Nobody else may use the server
// meanwhile: the tests read its statistics and flush its scripts. They
// leave no keys behind. Nor may other tests run in parallel: at the end Run looks
// for goroutines that were left behind. It takes about seven seconds.
func Run(t *testing.T, addr string, newClient NewClient) {
	before := goleak.IgnoreCurrent()
	for _, group := range [][]property{replies, scripts, pops, waits, faults} {
		for _, p := range group {
			t.Run(p.name, func(t *testing.T) {
				p.test(t, newServer(t, addr, newClient))
			})
		}
	}
	t.Run("LeavesNoGoroutine", func(t *testing.T) {
		// Clients may end their goroutines at leisure after they are closed.
		var leak error
		for start := time.Now(); time.Since(start) < patience; {
			if leak = goleak.Find(before); leak == nil {
				return
			}
		}
		require.NoError(t, leak)
	})
}

// property is one thing that the contract asks for.
type property struct {
	name string
	test func(t *testing.T, s *server)
}

// server is the Redis server as a test sees it.
type server struct {
	addr      string
	newClient NewClient
	control   redis.Conn // the test's own connection
	key       string     // for the test, absent at first; further keys are made by append
}

func newServer(t *testing.T, addr string, newClient NewClient) *server {
	control, err := redis.Dial("tcp", addr, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience))
	require.NoError(t, err)
	s := &server{addr: addr, newClient: newClient, control: control}
	// The hash tag keeps all keys of a test in one slot.
	s.key = fmt.Sprintf("{redsem:adaptertest:%s:%d}", t.Name(), time.Now().UnixNano())
	t.Cleanup(func() {
		keys, err := redis.Values(control.Do("KEYS", s.key+"*"))
		if err == nil && len(keys) > 0 {
			control.Do("DEL", keys...)
		}
		control.Close()
	})
	return s
}

// client makes a client that talks to the server directly.
func (s *server) client(t *testing.T) redisadapter.Redis {
	t.Helper()
	client := s.newClient(t, s.addr)
	require.NotNil(t, client)
	return client
}

// proxied makes a client that talks to the server through a proxy.
func (s *server) proxied(t *testing.T) (*faultproxy.Proxy, redisadapter.Redis) {
	t.Helper()
	proxy := faultproxy.Start(t, s.addr)
	client := s.newClient(t, proxy.Addr())
	require.NotNil(t, client)
	t.Cleanup(func() { // before the client is closed, which may want to say good-bye
		proxy.SetDelay(0)
		proxy.Stall(false)
	})
	return proxy, client
}

// do sends a command of the test itself.
func (s *server) do(t *testing.T, command string, args ...any) any {
	t.Helper()
	reply, err := s.control.Do(command, args...)
	require.NoError(t, err)
	return reply
}

// elements is the content of the list at key.
func (s *server) elements(t *testing.T, key string) []string {
	t.Helper()
	list, err := redis.Strings(s.do(t, "LRANGE", key, 0, -1), nil)
	require.NoError(t, err)
	return list
}

// calls is how often the server was sent any of these commands, since it
// started.
func (s *server) calls(t *testing.T, commands ...string) int {
	t.Helper()
	sum := 0
	for _, command := range commands {
		_, stats, _ := strings.Cut(s.info(t, "commandstats", "cmdstat_"+command), "calls=")
		number, _, _ := strings.Cut(stats, ",")
		n, _ := strconv.Atoi(number) // a command that was never sent is not listed
		sum += n
	}
	return sum
}

// awaitBlocked waits until n clients are blocked in the server.
func (s *server) awaitBlocked(t *testing.T, n int) {
	t.Helper()
	eventually(t, "the number of blocked clients is "+strconv.Itoa(n), func() bool {
		return s.info(t, "clients", "blocked_clients") == strconv.Itoa(n)
	})
}

// info reads one value of a section of the server's INFO; it is empty if there is
// none.
func (s *server) info(t *testing.T, section, name string) string {
	t.Helper()
	text, err := redis.String(s.do(t, "INFO", section), nil)
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// within waits for a value until a time is over. The time is made of short
// pauses: where the machine is so busy that the client is held up, it is longer.
func within[T any](bound time.Duration, values <-chan T) (value T, ok bool) {
	const pause = 10 * time.Millisecond
	for range bound / pause {
		select {
		case value = <-values:
			return value, true
		case <-time.After(pause):
		}
	}
	return value, false
}

// eventually asks until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for start := time.Now(); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > patience {
			require.FailNow(t, "never came true: "+what)
		}
	}
}

// patient gives a context that bounds what should never last long.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

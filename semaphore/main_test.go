package semaphore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// server is shared by the tests that do not disturb it; each uses keys of its
// own. The library works there with the rights of docs/security.md.
var server *redistest.Server

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	args, err := redistest.WithUser("../docs/security.md")
	if err == nil {
		server, err = redistest.New(args...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for end := time.Now().Add(patience); semaphore.LiveHubs() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // leaves are sent once more
	}
	server.Close()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// verifyNoLeak checks at the end of a test, when its clean-up is done, that no
// goroutine is left of it.
func verifyNoLeak(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// adapter is a client of a server, by a pool of its own.
func adapter(t *testing.T, addr string) redisadapter.Redis {
	if addr != server.Addr {
		return redigoadapter.New(redistest.Pool(t, addr, 0))
	}
	return userAdapter(t, addr)
}

// userAdapter is adapter with the rights of docs/security.md.
func userAdapter(t *testing.T, addr string) redisadapter.Redis {
	pool := redistest.UserPool(addr)
	t.Cleanup(func() { pool.Close() })
	return redigoadapter.New(pool)
}

// newSemaphore makes a handle on a key named after the test, on the shared
// server.
func newSemaphore(t *testing.T, settings ...semaphore.Settings) *semaphore.Semaphore {
	t.Helper()
	s, err := semaphore.New(t.Name(), adapter(t, server.Addr), nil, settings...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// patience is the longest that a test waits for an event that should come soon.
const patience = 30 * time.Second

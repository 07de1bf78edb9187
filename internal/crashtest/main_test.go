package crashtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/redistest"
)

// patience is the longest that a test waits for an event that should come soon.
const patience = 30 * time.Second

var (
	server *redistest.Server // shared by all tests; each uses keys of its own
	worker string            // the path of the program that the processes run
)

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "redsem-crash-")
	if err == nil {
		defer os.RemoveAll(dir)
		worker = filepath.Join(dir, "worker")
		build := exec.Command("go", "build", "-o", worker, "./worker")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	var args []string
	if err == nil {
		args, err = redistest.WithUser("../../docs/security.md")
	}
	if err == nil {
		server, err = redistest.New(args...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	server.Close()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

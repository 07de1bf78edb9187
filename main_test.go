package redsem_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/redistest"
)

// server is shared by the tests; each uses keys of its own.
var server *redistest.Server

func TestMain(m *testing.M) {
	var err error
	server, err = redistest.New()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

package histories

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leavesEnd bounds how long a process goes on for leaves that it can't send any more, as
// the server of its history has ended.
const leavesEnd = 30 * time.Second

func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for end := time.Now().Add(leavesEnd); err != nil && time.Now().Before(end); {
		err = goleak.Find()
	}
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

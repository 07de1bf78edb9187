package main

import (
	"context"
	"io"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Through the semaphore, five calls run at once, never more, and none fails; without it
// many do.
func TestParityB_FragileAPIWithFiveCallsAtATime(t *testing.T) {
	exampletest.OnEach(t, func(t *testing.T, url string) {
		output := exampletest.Output(t, url, func(ctx context.Context, out io.Writer, url string) error {
			return run(ctx, out, url, meeting(ctx))
		})
		free := numbers(t, output, "as they like")
		require.Greater(t, free["at once at most"], limit)
		require.GreaterOrEqual(t, free["failures"], workers)
		require.Equal(t, map[string]int{"calls": calls, "at once at most": limit, "failures": 0},
			numbers(t, output, "five at a time"))
	})
}

// meeting is work as usual, but the first five calls to an API wait for each other: so
// five do run at once, whatever the machine.
func meeting(ctx context.Context) func(n int) {
	var mu sync.Mutex
	arrived, all := 0, make(chan struct{})
	return func(n int) {
		defer work(n)
		if n > limit {
			return
		}
		mu.Lock()
		wait := all
		if arrived++; arrived == limit {
			close(all)
			arrived, all = 0, make(chan struct{}) // for the next API
		}
		mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// numbers reads a line of the output.
func numbers(t *testing.T, output, how string) map[string]int {
	line := regexp.MustCompile(how + `: (.*)`).FindStringSubmatch(output)
	require.NotNil(t, line)
	found := make(map[string]int)
	for _, number := range regexp.MustCompile(`(\d+) ([a-z ]+)`).FindAllStringSubmatch(line[1], -1) {
		n, err := strconv.Atoi(number[1])
		require.NoError(t, err)
		found[number[2]] = n
	}
	return found
}

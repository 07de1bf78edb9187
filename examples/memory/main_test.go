package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A large request is served before small ones that came later, though these would have
// fitted at once; the sum is never above the pool.
func TestBeyond3_LargeRequestIsNotStarved(t *testing.T) {
	exampletest.OnEach(t, func(t *testing.T, url string) {
		output := exampletest.Output(t, url, run)
		require.Contains(t, output, "in order of their fences: a b L c d e;")
		// L has it alone: the small ones get theirs when it is done.
		require.Regexp(t, `(?s)L takes 60 .*L is done .*c takes 8 `, output)
		used := regexp.MustCompile(`(?m)(\d+) MiB$`).FindAllStringSubmatch(output, -1)
		require.Len(t, used, 2*len(jobs))
		for _, line := range used {
			sum, err := strconv.Atoi(line[1])
			require.NoError(t, err)
			require.LessOrEqual(t, sum, total)
		}
		require.Contains(t, output, "who asks for 65 need not wait: redsem: acquire")
		require.Contains(t, output, "more permits than the capacity")
	})
}

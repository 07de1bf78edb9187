package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/examples/internal/exampletest"
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// A consumer is killed over a job: that is delivered again, and all jobs are done.
func TestParityB_ProducerAndConsumerWithACrash(t *testing.T) {
	exampletest.OnEach(t, func(t *testing.T, url string) {
		output := exampletest.Output(t, url, run)
		for n := range jobs {
			done := regexp.MustCompile(fmt.Sprintf(`(?m)did parcel %d$`, n+1)).FindAllString(output, -1)
			require.Len(t, done, 1, "parcel %d", n+1)
		}
		dead := regexp.MustCompile(`(\w+) +is dead`).FindStringSubmatch(output)
		require.NotNil(t, dead, "nobody was killed")
		require.Regexp(t, dead[1]+` +begins `+fatal+"\n", output)
		require.NotRegexp(t, dead[1]+` +(begins|did) `, output[strings.Index(output, dead[0]):], "the dead work")
		require.Regexp(t, "begins "+fatal+", delivery 2\n", output)
		require.Contains(t, output, "left in the queue: 0 ready, 0 worked on")
	})
}

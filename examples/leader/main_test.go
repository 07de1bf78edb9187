package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/examples/internal/exampletest"
	"github.com/redsem/redsem/semaphore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A leader that can't renew its lease stops, and knows why, before another one leads.
func TestBeyond5_LeaderStopsWhenItsLeaseIsLost(t *testing.T) {
	exampletest.OnEach(t, func(t *testing.T, url string) {
		var terms []*term
		output := exampletest.Output(t, url, func(ctx context.Context, out io.Writer, url string) (err error) {
			terms, err = run(ctx, out, url)
			return err
		})
		require.Len(t, terms, 3)
		lost, next, last := terms[0], terms[1], terms[2]

		require.ErrorIs(t, context.Cause(lost.permit.Context()), semaphore.ErrLost)
		require.NotEqual(t, lost.leader.name, next.leader.name)
		require.NotEqual(t, lost.leader.name, last.leader.name)
		require.Greater(t, next.fence, lost.fence)
		require.Greater(t, last.fence, next.fence)
		require.Regexp(t, lost.leader.name+` +stops after \d+ shifts: .*lost`, output)

		// A fence is the server's time of the grant, in µs. Server and test share one clock;
		// it may be corrected a little meanwhile.
		elected := time.UnixMicro(next.fence).Add(5 * time.Millisecond)
		require.False(t, lost.permit.Deadline().After(elected),
			"the first leader believed in its lease until %v, the next one was elected at %v", lost.permit.Deadline(), elected)
	})
}

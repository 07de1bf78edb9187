// Package exampletest runs the tests of the examples on both kinds of Redis.
package exampletest

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the longest that an example may take, on a busy machine too.
const patience = 90 * time.Second

// OnEach runs a test on the Redis that an example starts itself (the URL is empty) and,
// where there is one, on a redis-server, in which nothing may be left at the end.
func OnEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("Miniredis", func(t *testing.T) { test(t, "") })
	t.Run("Redis", func(t *testing.T) { onRedis(t, test) })
}

// Output runs an example, and gives what it prints.
func Output(t *testing.T, url string, run func(ctx context.Context, out io.Writer, url string) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, &out, url)
	t.Log(out.String())
	require.NoError(t, err)
	return out.String()
}

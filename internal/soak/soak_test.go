package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		os.Exit(runChild(part))
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestSoak(t *testing.T) {
	var out bytes.Buffer
	seed := uint64(time.Now().UnixNano())
	r, err := soak(t.Context(), config{duration: 3 * time.Second, seed: seed, nodes: 2, children: 1, players: len(kinds), verbose: true, out: &out})
	require.NoError(t, err, "seed %d\n%s", seed, &out)
	r.print(&out)
	t.Log(&out)
	assert.Zero(t, r.wrong)
	for _, k := range kinds {
		assert.Positive(t, r.operations[k.name], k.name)
	}
	assert.NotEmpty(t, r.faults)
}

func TestSoak_EndsEarlyWithAReport(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	r, err := soak(ctx, config{duration: time.Hour, nodes: 1, players: 1, out: &out})
	require.NoError(t, err)
	r.print(&out)
	assert.Zero(t, r.wrong, &out)
	assert.Contains(t, out.String(), "violations: 0")
}

package main

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestRuns(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := miniredis.NewMiniRedis()
	require.NoError(t, server.Start())
	defer server.Close()

	require.NoError(t, run("redis://"+server.Addr()))

	held := "semaphore:{downloads}:locked"
	require.False(t, server.Exists(held), "the permit was not given back")
}

func TestSaysWhyItFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := miniredis.RunT(t)
	addr := server.Addr()
	server.Close()

	require.Error(t, run("redis://"+addr))
}

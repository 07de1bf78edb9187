package redigoadapter_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// awaitClients waits until a server has n clients beside the test's own
// connection.
func awaitClients(t *testing.T, control redis.Conn, n int) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		list, err := redis.String(control.Do("CLIENT", "LIST"))
		require.NoError(t, err)
		if strings.Count(list, "\n") == n+1 {
			return
		}
		require.Less(t, time.Since(start), patience, "never %d clients:\n%s", n, list)
	}
}

// startPops begins n pops. What it returns cancels them and waits for their end;
// the end of the test does so too.
func startPops(t *testing.T, client redisadapter.Redis, n int) func() {
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for i := range n {
		ended.Go(func() { client.BLPop(ctx, fmt.Sprint(t.Name(), i), time.Hour) })
	}
	end := func() {
		cancel()
		ended.Wait()
	}
	t.Cleanup(end)
	return end
}

func TestPopsUseConnectionsBesideThePool(t *testing.T) {
	server := redistest.Start(t)
	control := server.Dial(t)
	pool := redistest.Pool(t, server.Addr, 1)
	client := redigoadapter.New(pool)
	startPops(t, client, 5)
	awaitClients(t, control, 5)
	require.Zero(t, pool.ActiveCount())
	_, err := client.Eval(t.Context(), one, nil, nil)
	require.NoError(t, err)
	require.Equal(t, 1, pool.ActiveCount())
	awaitClients(t, control, 6)
}

func TestConnectionsOfCancelledPopsAreClosed(t *testing.T) {
	server := redistest.Start(t)
	control := server.Dial(t)
	end := startPops(t, redigoadapter.New(redistest.Pool(t, server.Addr, 0)), 5)
	awaitClients(t, control, 5)
	end()
	awaitClients(t, control, 0)
}

func TestConnectionsOfEndedPopsAreClosed(t *testing.T) {
	server := redistest.Start(t)
	control := server.Dial(t)
	client := redigoadapter.New(redistest.Pool(t, server.Addr, 0))
	var ended sync.WaitGroup
	for range 5 {
		ended.Go(func() { client.BLPop(t.Context(), "k", time.Millisecond) })
	}
	ended.Wait()
	awaitClients(t, control, 0)
}

func TestPopAfterPopUsesItsConnection(t *testing.T) {
	server := redistest.Start(t)
	dialled := 0
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		dialled++
		return redis.Dial("tcp", server.Addr)
	}}
	client := redigoadapter.New(pool)
	_, err := server.Dial(t).Do("RPUSH", "k", "a", "b", "c")
	require.NoError(t, err)
	for range 3 { // at once, hence far within the time for which a connection is kept
		_, ok, err := client.BLPop(t.Context(), "k", patience)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.Equal(t, 1, dialled)
}

func TestPopReturnsElementThatArrivesAsItIsCancelled(t *testing.T) {
	sent := make(chan struct{})
	client := redigoadapter.New(fakePool(func(c *fakeConn, _ time.Duration, _ string, args []any) (any, error) {
		close(sent)
		<-c.closed // by the cancellation, which comes too late
		return []any{[]byte("k"), []byte("a")}, nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the pop
		<-sent
		cancel()
	}()
	value, ok, err := client.BLPop(ctx, "k", time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "a", value)
}

func TestPopRoundsItsTimeoutUpToMilliseconds(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		0:                              "0.001", // 0 would mean for ever
		time.Nanosecond:                "0.001",
		time.Millisecond:               "0.001",
		time.Millisecond + 1:           "0.002",
		1500 * time.Millisecond:        "1.500",
		24 * time.Hour:                 "86400.000",
		time.Minute - time.Microsecond: "60.000",
	} {
		var got any
		var awaited time.Duration
		client := redigoadapter.New(fakePool(func(_ *fakeConn, readTimeout time.Duration, _ string, args []any) (any, error) {
			got, awaited = args[1], readTimeout
			return nil, nil
		}))
		_, ok, err := client.BLPop(t.Context(), "k", timeout)
		require.NoError(t, err)
		require.False(t, ok)
		require.Equal(t, want, got, "of %v", timeout)
		require.Greater(t, awaited, timeout+time.Second, "the wait for the reply")
	}
}

func TestPopRefusesReplyThatIsNone(t *testing.T) {
	client := redigoadapter.New(fakePool(func(*fakeConn, time.Duration, string, []any) (any, error) {
		return []any{[]byte("k")}, nil
	}))
	_, ok, err := client.BLPop(t.Context(), "k", time.Second)
	require.ErrorContains(t, err, "unexpected reply to BLPOP")
	require.False(t, ok)
}

func TestPopEndsWhileItDials(t *testing.T) {
	dialling, answer := make(chan struct{}), make(chan struct{})
	conn := &fakeConn{closed: make(chan struct{})}
	client := redigoadapter.New(&redis.Pool{Dial: func() (redis.Conn, error) {
		close(dialling)
		<-answer
		return conn, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the dial
		<-dialling
		cancel()
	}()
	_, _, err := client.BLPop(ctx, "k", time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	close(answer)
	wait(t, conn.closed) // nobody needs it any more
}

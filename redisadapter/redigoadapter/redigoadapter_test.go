package redigoadapter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// patience is the longest that a test waits for what should come soon.
const patience = 30 * time.Second

var one = redisadapter.NewScript("return 1")

func wait(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		require.FailNow(t, "did not happen")
	}
}

// requireUnknown sees that an error leaves open what the server has done, so that
// redsem asks again.
func requireUnknown(t *testing.T, err error) {
	t.Helper()
	var reply *redisadapter.ReplyError
	require.Error(t, err)
	require.NotErrorAs(t, err, &reply)
}

func TestNilPoolGivesNil(t *testing.T) {
	require.True(t, redigoadapter.New(nil) == nil)
}

func TestAdaptersOfOnePoolAreTheSame(t *testing.T) {
	pool, other := &redis.Pool{}, &redis.Pool{}
	identity := func(pool *redis.Pool) any {
		return redigoadapter.New(pool).(redisadapter.Identifier).Identity()
	}
	require.True(t, identity(pool) == identity(pool))
	require.False(t, identity(pool) == identity(other))
}

func TestPoolWithoutDialGivesClearError(t *testing.T) {
	client := redigoadapter.New(&redis.Pool{})
	_, err := client.Eval(t.Context(), one, nil, nil)
	require.ErrorContains(t, err, "Dial or DialContext")
	_, _, err = client.BLPop(t.Context(), "k", time.Second)
	require.ErrorContains(t, err, "neither Dial nor DialContext")
}

func TestRefusalToDialIsReplyError(t *testing.T) {
	server := redistest.Start(t)
	client := redigoadapter.New(&redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", server.Addr, redis.DialPassword("the server has none"))
	}})
	var reply *redisadapter.ReplyError
	_, err := client.Eval(t.Context(), one, nil, nil)
	require.ErrorAs(t, err, &reply)
	require.Contains(t, reply.Message, "AUTH")
	_, _, err = client.BLPop(t.Context(), "k", time.Second)
	require.ErrorAs(t, err, &reply)
	require.Contains(t, reply.Message, "AUTH")
}

func TestEvalsTakeTurnsInPoolThatDoesNotWait(t *testing.T) {
	server := redistest.Start(t)
	pool := redistest.Pool(t, server.Addr, 1)
	pool.Wait = false
	client := redigoadapter.New(pool)
	var ended sync.WaitGroup
	for range 50 {
		ended.Go(func() {
			_, err := client.Eval(t.Context(), one, nil, nil)
			assert.NoError(t, err)
		})
	}
	ended.Wait()
	require.Equal(t, 1, pool.ActiveCount())
}

func TestEvalStopsWaitingForAConnection(t *testing.T) {
	server := redistest.Start(t)
	for _, waiting := range []bool{true, false} {
		t.Run(fmt.Sprint("PoolWaits=", waiting), func(t *testing.T) {
			pool := redistest.Pool(t, server.Addr, 1)
			pool.Wait = waiting
			client := redigoadapter.New(pool)
			taken := pool.Get()
			defer taken.Close()

			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			_, err := client.Eval(ctx, one, nil, nil)
			require.ErrorIs(t, err, context.Canceled)

			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = client.Eval(ctx, one, nil, nil)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

func TestEvalEndsWhileItDials(t *testing.T) {
	server := redistest.Start(t)
	answer := make(chan struct{})
	pool := redistest.Pool(t, server.Addr, 1)
	dial := pool.Dial
	pool.Dial = func() (redis.Conn, error) {
		<-answer
		return dial()
	}
	client := redigoadapter.New(pool)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client.Eval(ctx, one, nil, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(answer)
	_, err = client.Eval(t.Context(), one, nil, nil) // the late connection has gone back to the pool
	require.NoError(t, err)
}

func TestEvalWaitsLongerThanTheReadTimeoutOfThePool(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	pool := redistest.Pool(t, proxy.Addr(), 0)
	pool.Dial = func() (redis.Conn, error) {
		return redis.Dial("tcp", proxy.Addr(), redis.DialReadTimeout(50*time.Millisecond))
	}
	proxy.SetDelay(100 * time.Millisecond)
	_, err := redigoadapter.New(pool).Eval(t.Context(), one, nil, nil)
	require.NoError(t, err)
}

// idleConnections fills a pool with n idle connections. The ids are the server's, in
// the order in which the pool gives the connections.
func idleConnections(t *testing.T, pool *redis.Pool, n int) (ids []int) {
	t.Helper()
	conns := make([]redis.Conn, n)
	ids = make([]int, n)
	for i := range conns {
		conns[i] = pool.Get()
		id, err := redis.Int(conns[i].Do("CLIENT", "ID"))
		require.NoError(t, err)
		ids[n-1-i] = id
	}
	for _, conn := range conns {
		conn.Close()
	}
	return ids
}

// kill makes the server close a client's connection.
func kill(t *testing.T, control redis.Conn, id int) {
	t.Helper()
	killed, err := redis.Int(control.Do("CLIENT", "KILL", "ID", id))
	require.NoError(t, err)
	require.Equal(t, 1, killed)
}

func TestStaleConnectionFailsOneEval(t *testing.T) {
	server := redistest.Start(t)
	pool := redistest.Pool(t, server.Addr, 0)
	client := redigoadapter.New(pool)
	kill(t, server.Dial(t), idleConnections(t, pool, 1)[0])
	_, err := client.Eval(t.Context(), one, nil, nil)
	requireUnknown(t, err)
	_, err = client.Eval(t.Context(), one, nil, nil)
	require.NoError(t, err)
}

func TestStaleConnectionsTogetherFailOneEval(t *testing.T) {
	server := redistest.Start(t)
	pool := redistest.Pool(t, server.Addr, 0)
	client := redigoadapter.New(pool)
	control := server.Dial(t)
	for _, id := range idleConnections(t, pool, 20) {
		kill(t, control, id)
	}
	_, err := client.Eval(t.Context(), one, nil, nil)
	requireUnknown(t, err)
	require.Zero(t, pool.ActiveCount())
	_, err = client.Eval(t.Context(), one, nil, nil)
	require.NoError(t, err)
}

func TestStaleConnectionsAreWeededOutUpToAGoodOne(t *testing.T) {
	server := redistest.Start(t)
	pool := redistest.Pool(t, server.Addr, 0)
	control := server.Dial(t)
	ids := idleConnections(t, pool, 3)
	kill(t, control, ids[0])
	kill(t, control, ids[1])
	client := redigoadapter.New(pool)
	_, err := client.Eval(t.Context(), one, nil, nil)
	requireUnknown(t, err)
	require.Equal(t, 1, pool.ActiveCount())
	_, err = client.Eval(t.Context(), one, nil, nil)
	require.NoError(t, err)
}

func TestEvalIsNotRepeatedAfterItsDeadline(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	pool := redistest.Pool(t, proxy.Addr(), 0)
	idleConnections(t, pool, 3)
	proxy.Stall(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := redigoadapter.New(pool).Eval(ctx, one, nil, nil)
	requireUnknown(t, err)
	proxy.Stall(false)
	require.Eventually(t, func() bool { return pool.IdleCount() == 2 }, patience, time.Millisecond, "the others are good")
}

func TestConnectionsThatDiedInSilenceFailOneEval(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	pool := redistest.Pool(t, proxy.Addr(), 0)
	client := redigoadapter.New(pool)
	idleConnections(t, pool, 20)
	proxy.HalfOpen()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client.Eval(ctx, one, nil, nil)
	requireUnknown(t, err)
	require.Eventually(t, func() bool { return pool.IdleCount() == 0 }, patience, time.Millisecond)
	_, err = client.Eval(t.Context(), one, nil, nil) // has no deadline: would hang
	require.NoError(t, err)
	require.Eventually(t, func() bool { return pool.ActiveCount() == 1 }, patience, time.Millisecond)
}

// Package redigoadapter lets redsem use a connection pool of
// github.com/gomodule/redigo.
package redigoadapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/redisadapter"
)

const (
	// blockingSlack is how much longer than the server a blocking pop waits
	// before it takes the connection for dead.
	blockingSlack = 5 * time.Second

	// blockingIdle is how long a connection for blocking pops is kept open
	// for the next one.
	blockingIdle = 500 * time.Millisecond

	// testTimeout is how long a connection has to answer that may be dead.
	testTimeout = 500 * time.Millisecond

	// evalTimeout bounds an Eval whose context has no deadline.
	evalTimeout = 30 * time.Second
)

// Adapter is a redisadapter.Redis on a redigo pool. All adapters of one pool
// count as the same client.
//
// Scripts run on connections of the pool; if it is exhausted (MaxActive without
// Wait) they wait for their turn. A script's reply is awaited until the
// deadline of the call, whatever the read timeout of the pool's connections.
// Blocking pops run on connections that the adapter dials with the pool's Dial
// or DialContext, beside the pool and its limits: one for each pop under way. They
// are closed when the pops end.
type Adapter struct {
	pool  *redis.Pool
	freed chan struct{} // tells one call that waits for the pool that a connection was given back

	testing atomic.Bool // testIdle is at work

	mu   sync.Mutex
	idle []*blockingConn // for the next pop; guarded by mu
}

// blockingConn is a connection apart from the pool. While it is idle, its timer
// runs; who takes it out of Adapter.idle owns it.
type blockingConn struct {
	redis.Conn
	expiry *time.Timer
}

// New makes an adapter of a pool, which stays the caller's to configure and to
// close. A nil pool gives nil, which semaphores refuse with a clear error.
func New(pool *redis.Pool) redisadapter.Redis {
	if pool == nil {
		return nil
	}
	return &Adapter{pool: pool, freed: make(chan struct{}, 1)}
}

// Identity is the pool.
func (a *Adapter) Identity() any { return a.pool }

// Eval implements redisadapter.Redis.
func (a *Adapter) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	line := make([]any, 0, 2+len(keys)+len(args))
	line = append(line, nil, len(keys))
	for _, key := range keys {
		line = append(line, key)
	}
	for _, arg := range args {
		line = append(line, arg)
	}
	conn, err := a.conn(ctx)
	if err != nil {
		return nil, redisadapter.NotSent(replyError(err))
	}
	line[0] = script.SHA()
	reply, err := do(ctx, conn, "EVALSHA", line)
	if redisadapter.IsNoScript(err) {
		line[0] = script.Source()
		reply, err = do(ctx, conn, "EVAL", line)
	}
	broken, silent := conn.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded)
	a.giveBack(conn)
	switch {
	case broken && silent:
		a.testIdle()
	case broken:
		a.weedOut(ctx)
	}
	return reply, err
}

// testIdle closes connections of the pool that are dead without anybody having been
// told, as when a router has forgotten them: each that is idle may be as dead as the
// one that was silent, and would cost another call its time. They are tested at once, and
// aside: meanwhile calls dial anew. Of a limited pool one place stays free for them.
func (a *Adapter) testIdle() {
	if a.testing.Swap(true) {
		return
	}
	go func() { // ends after testTimeout, unless somebody else dials in between
		defer a.testing.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		n := a.pool.IdleCount()
		if most := a.pool.MaxActive; most > 0 {
			n = min(n, most-a.pool.ActiveCount()+n-1)
		}
		var idle []redis.Conn
		for range n {
			conn, err := a.pool.GetContext(ctx)
			if err != nil {
				break
			}
			idle = append(idle, conn)
		}
		var tests sync.WaitGroup
		for _, conn := range idle {
			tests.Go(func() {
				do(ctx, conn, "PING", nil) // one that is not answered breaks the connection
				a.giveBack(conn)
			})
		}
		tests.Wait()
	}()
}

// weedOut closes dead connections of the pool: after a restart of the server each
// idle one is as dead as the one that has just failed, and would fail another call.
func (a *Adapter) weedOut(ctx context.Context) {
	for range a.pool.IdleCount() {
		conn, err := a.get(ctx)
		if err != nil {
			return
		}
		_, err = do(ctx, conn, "PING", nil)
		a.giveBack(conn)
		if err == nil {
			return
		}
	}
}

// giveBack returns a connection to the pool.
func (a *Adapter) giveBack(conn redis.Conn) {
	conn.Close()
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// conn takes a connection from the pool. A pool that does not wait itself is
// asked again until there is one or ctx ends: when this adapter gives one back,
// and from time to time, since others may do so as well.
func (a *Adapter) conn(ctx context.Context) (redis.Conn, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := a.get(ctx)
		if !errors.Is(err, redis.ErrPoolExhausted) {
			return conn, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-a.freed:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// get asks the pool once. An idle connection is had at once, and DialContext
// heeds ctx; only Dial needs somebody else to wait for it. (If the idle
// connection proves to be too old, or another call is quicker, the pool's own
// timeout bounds the dial.)
func (a *Adapter) get(ctx context.Context) (redis.Conn, error) {
	if a.pool.DialContext != nil || a.pool.IdleCount() > 0 {
		return a.pool.GetContext(ctx)
	}
	return abandon(ctx, a.pool.GetContext)
}

// abandon dials until ctx ends. A connection that comes later is closed.
func abandon(ctx context.Context, dial func(context.Context) (redis.Conn, error)) (redis.Conn, error) {
	type result struct {
		conn redis.Conn
		err  error
	}
	dialled := make(chan result)
	go func() { // ends with the dial, which has a timeout of its own
		conn, err := dial(ctx)
		select {
		case dialled <- result{conn, err}:
		case <-ctx.Done():
			if err == nil {
				conn.Close()
			}
		}
	}()
	select {
	case r := <-dialled:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func do(ctx context.Context, conn redis.Conn, command string, line []any) (any, error) {
	timeout := evalTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	if err := ctx.Err(); err != nil {
		return nil, redisadapter.NotSent(err)
	}
	if timeout <= 0 {
		return nil, redisadapter.NotSent(context.DeadlineExceeded)
	}
	reply, err := redis.DoWithTimeout(conn, timeout, command, line...)
	return reply, replyError(err)
}

// BLPop implements redisadapter.Redis.
func (a *Adapter) BLPop(ctx context.Context, key string, timeout time.Duration) (string, bool, error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	conn, err := a.blocking(ctx)
	if err != nil {
		return "", false, replyError(err)
	}
	// Closing a connection interrupts the command that uses it: redigo guards
	// the two against each other.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	reply, err := redis.DoWithTimeout(conn.Conn, timeout+blockingSlack, "BLPOP", key, seconds(timeout))
	if !stop() || err != nil {
		conn.Close()
	} else {
		a.keep(conn)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", false, ctx.Err()
	case err != nil:
		return "", false, replyError(err)
	case reply == nil:
		return "", false, nil
	}
	pair, err := redis.Strings(reply, nil)
	if err != nil || len(pair) != 2 {
		return "", false, fmt.Errorf("redigoadapter: unexpected reply to BLPOP: %v", reply)
	}
	return pair[1], true, nil
}

// seconds writes a timeout for BLPOP, rounded up to milliseconds: 0 would mean
// for ever.
func seconds(timeout time.Duration) string {
	ms := max(1, (timeout+time.Millisecond-1)/time.Millisecond)
	return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64)
}

// blocking gives a connection apart from the pool to the caller.
func (a *Adapter) blocking(ctx context.Context) (*blockingConn, error) {
	a.mu.Lock()
	for len(a.idle) > 0 {
		conn := a.idle[len(a.idle)-1]
		a.idle = a.idle[:len(a.idle)-1]
		if conn.expiry.Stop() {
			a.mu.Unlock()
			return conn, nil
		}
		conn.Close() // its timer has fired, and finds it gone
	}
	a.mu.Unlock()
	var conn redis.Conn
	var err error
	switch {
	case a.pool.DialContext != nil:
		conn, err = a.pool.DialContext(ctx)
	case a.pool.Dial != nil:
		conn, err = abandon(ctx, func(context.Context) (redis.Conn, error) { return a.pool.Dial() })
	default:
		err = errors.New("redigoadapter: the pool has neither Dial nor DialContext")
	}
	if err != nil {
		return nil, err
	}
	return &blockingConn{Conn: conn}, nil
}

// keep leaves a connection for the next pop, for a short time.
func (a *Adapter) keep(conn *blockingConn) {
	if conn.Err() != nil {
		conn.Close()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, conn)
	conn.expiry = time.AfterFunc(blockingIdle, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i, c := range a.idle {
			if c == conn {
				a.idle = append(a.idle[:i], a.idle[i+1:]...)
				conn.Close()
				return
			}
		}
	})
}

// replyError makes an error reply known as such.
func replyError(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return &redisadapter.ReplyError{Message: string(reply)}
	}
	return err
}

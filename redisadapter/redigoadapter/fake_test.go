package redigoadapter_test

import (
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

var errClosed = errors.New("closed")

// fakeConn is a connection of which a test plays the server.
type fakeConn struct {
	redis.Conn
	do     func(c *fakeConn, readTimeout time.Duration, command string, args []any) (any, error)
	close  sync.Once
	closed chan struct{}
}

// fakePool is a pool of one fakeConn.
func fakePool(do func(c *fakeConn, readTimeout time.Duration, command string, args []any) (any, error)) *redis.Pool {
	conn := &fakeConn{do: do, closed: make(chan struct{})}
	return &redis.Pool{Dial: func() (redis.Conn, error) { return conn, nil }}
}

func (c *fakeConn) DoWithTimeout(readTimeout time.Duration, command string, args ...any) (any, error) {
	return c.do(c, readTimeout, command, args)
}

func (c *fakeConn) ReceiveWithTimeout(time.Duration) (any, error) { return nil, errClosed }

func (c *fakeConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

func (c *fakeConn) Err() error {
	select {
	case <-c.closed:
		return errClosed
	default:
		return nil
	}
}

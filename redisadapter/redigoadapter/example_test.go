package redigoadapter_test

import (
	"crypto/tls"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// A Redis that speaks TLS and asks for a user is a matter of the pool.
func ExampleNew() {
	var addr, password string
	var config *tls.Config
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", addr,
			redis.DialUseTLS(true), redis.DialTLSConfig(config),
			redis.DialUsername("redsem"), redis.DialPassword(password))
	}}
	defer pool.Close()
	s, err := semaphore.New("deploy", redigoadapter.New(pool), nil)
	fmt.Println(s.Key(), err) // nothing has been asked of Redis yet
	// Output: deploy <nil>
}

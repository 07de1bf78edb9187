package redistest

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// The user of a server that was started with WithUser.
const (
	User     = "redsem"
	Password = "secret"
)

// WithUser is what to start a server with that has a user with the rights of
// docs/security.md and no others. page is the path of that file.
func WithUser(page string) ([]string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, rights, _ := strings.Cut(string(text), "ACL SETUSER "+User+" ")
	rights, _, ok := strings.Cut(rights, "```")
	if !ok {
		return nil, fmt.Errorf("redistest: no rights in %s", page)
	}
	rights = strings.Replace(rights, ">PASSWORD", ">"+Password, 1)
	return append([]string{"--user", User}, strings.Fields(rights)...), nil
}

// UserPool is NewPool for that user.
func UserPool(addr string) *redis.Pool {
	pool := NewPool(addr, 0)
	pool.Dial = func() (redis.Conn, error) {
		return redis.Dial("tcp", addr, redis.DialConnectTimeout(5*time.Second),
			redis.DialUsername(User), redis.DialPassword(Password))
	}
	return pool
}

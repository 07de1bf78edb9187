// Command quickstart is the shortest use of redsem: a semaphore, and a mutex
// around a function. It needs a Redis: REDIS_URL, or redis://127.0.0.1:6379.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

func main() {
	if err := run(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379")); err != nil {
		log.Fatal(err)
	}
}

func run(url string) (err error) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
	defer pool.Close()
	client := redigoadapter.New(pool)

	// A semaphore: at most 2 at a time, on all machines together.
	downloads, err := semaphore.New("downloads", client, nil, redsem.Settings{
		MaxParallelResources: 2,
		Expiration:           time.Minute, // a permit comes back by then, whatever happens
		TryLockTimeout:       10 * time.Second,
	})
	if err != nil {
		return err
	}
	token, err := downloads.Lock() // sleeps until it is our turn
	if err != nil {
		return err
	}
	defer func() {
		// An error here says that the permit had been lost before: what was done
		// under it may not have been alone.
		err = errors.Join(err, downloads.Unlock(token))
	}()
	fmt.Println("one of at most two")

	// A mutex: one at a time.
	return redsem.WithMutex("invoice:4711", client, nil, func() {
		fmt.Println("alone")
	})
}

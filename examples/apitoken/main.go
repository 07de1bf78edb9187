// Command apitoken shows what a mutex across processes is for: many requests at
// once find that the access token of an API has expired, and only one of them
// fetches a new one. It needs nothing but Go; with REDIS_URL it uses that Redis.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/examples/internal/exampleredis"
)

const requests = 50

func main() {
	if err := run(context.Background(), os.Getenv("REDIS_URL")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	r, err := exampleredis.Open(url)
	if err != nil {
		return err
	}
	defer r.Close()
	pool := newPool(r.URL)
	defer pool.Close()

	api := &fakeAPI{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: api}
	go server.Serve(listener) // ends with Close
	defer server.Close()

	tokens := &Tokens{pool: pool, key: r.Key("apitoken"), api: "http://" + listener.Addr().String()}
	start := time.Now()
	got, err := ask(ctx, tokens, requests)
	if err != nil {
		return err
	}
	fmt.Printf("%d requests got %d different token(s) in %v\n", requests, len(got), time.Since(start).Round(time.Millisecond))
	fmt.Printf("calls to the API: %d\n", api.calls.Load())
	return nil
}

func newPool(url string) *redis.Pool {
	return &redis.Pool{
		MaxIdle:   8,
		MaxActive: 8, // far fewer than there are requests
		Wait:      true,
		Dial:      func() (redis.Conn, error) { return redis.DialURL(url) },
	}
}

// ask makes n requests at once that each need the token, and counts how many got
// which.
func ask(ctx context.Context, tokens *Tokens, n int) (map[string]int, error) {
	var mu sync.Mutex
	var failure error
	got := make(map[string]int)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			token, err := tokens.Token(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
				return
			}
			got[token]++
		})
	}
	wg.Wait()
	return got, failure
}

// fakeAPI makes a new token whenever it is called, and takes its time for it.
type fakeAPI struct {
	calls atomic.Int64
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := a.calls.Add(1)
	time.Sleep(300 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token": "token-%d", "expires_in": 3600}`, n)
}

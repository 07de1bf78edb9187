package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary runs itself again as other processes that ask for the token.
const roleVariable = "REDSEM_APITOKEN_ROLE"

// role is what such a process is told.
type role struct {
	Redis, Key, API string
	Requests        int
}

func TestMain(m *testing.M) {
	if text := os.Getenv(roleVariable); text != "" {
		if err := play(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	pool := newPool(r.Redis)
	defer pool.Close()
	got, err := ask(context.Background(), &Tokens{pool: pool, key: r.Key, api: r.API}, r.Requests)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// Many requests in three processes at once find no token: the API is called once,
// and all get what it answered.
func TestParityD_APITokenFetchedOnce(t *testing.T) {
	const processes, each = 3, 50
	server := miniredis.RunT(t)
	// The API answers when all are waiting: the mutex has to hold them all off.
	enough := make(chan struct{})
	var api fakeAPI
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-enough
		api.ServeHTTP(w, r)
	})
	told, err := json.Marshal(role{"redis://" + server.Addr(), "token", web, each})
	require.NoError(t, err)

	outputs := make(chan []byte, processes)
	failures := make(chan error, processes)
	for range processes {
		go func() { // ends with the process
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"="+string(told))
			cmd.Stderr = os.Stderr
			output, err := cmd.Output()
			outputs <- output
			failures <- err
		}()
	}
	look := newPool("redis://" + server.Addr()).Get()
	defer look.Close()
	require.Eventually(t, func() bool {
		waiting, err := redis.Int(look.Do("ZCARD", "semaphore:{token}:queue"))
		return err == nil && waiting == processes*each-1
	}, time.Minute, 10*time.Millisecond, "all but one should wait")
	close(enough)

	for range processes {
		require.NoError(t, <-failures)
		var got map[string]int
		require.NoError(t, json.Unmarshal(<-outputs, &got))
		require.Equal(t, map[string]int{"token-1": each}, got)
	}
	require.EqualValues(t, 1, api.calls.Load())
}

// A token that expired is fetched again, once.
func TestExpiredTokenIsFetchedAgain(t *testing.T) {
	server := miniredis.RunT(t)
	var api fakeAPI
	tokens := newTokens(t, server, serve(t, api.ServeHTTP))
	for call := 1; call <= 3; call++ {
		got, err := ask(t.Context(), tokens, 20)
		require.NoError(t, err)
		require.Equal(t, map[string]int{fmt.Sprintf("token-%d", call): 20}, got)
		server.FastForward(time.Hour)
	}
	require.EqualValues(t, 3, api.calls.Load())
}

// While the API fails it is called by one request at a time, and nothing is
// cached; the first that succeeds ends that.
func TestFailureOfAPI(t *testing.T) {
	server := miniredis.RunT(t)
	var calls, inside atomic.Int64
	tokens := newTokens(t, server, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if inside.Add(1) > 1 {
			t.Error("two calls at once")
		}
		defer inside.Add(-1)
		if calls.Add(1) <= 3 {
			http.Error(w, "try later", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"access_token": "late", "expires_in": 3600}`)
	}))
	got, err := ask(t.Context(), tokens, 20)
	require.ErrorContains(t, err, "503")
	require.Equal(t, map[string]int{"late": 17}, got)
	require.EqualValues(t, 4, calls.Load())
}

func TestRuns(t *testing.T) {
	require.NoError(t, run(t.Context(), ""))
}

func newTokens(t *testing.T, server *miniredis.Miniredis, api string) *Tokens {
	pool := newPool("redis://" + server.Addr())
	t.Cleanup(func() { pool.Close() })
	return &Tokens{pool: pool, key: "token", api: api}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return web.URL
}

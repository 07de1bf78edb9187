package main

import (
	"net"
	"net/http"
	"sync"
)

// limit is how many calls the API stands at once.
const limit = 5

// fragileAPI answers 503 to who calls while it works on as many calls as it stands.
type fragileAPI struct {
	url    string
	server *http.Server
	work   func(n int) // what takes its time; n counts from 1

	mu      sync.Mutex
	seen    statistics // guarded by mu
	present int        // calls of which it has not got rid; guarded by mu
	working int        // those that it works on; guarded by mu
}

// statistics are what the API has seen.
type statistics struct {
	accepted, refused int
	most              int // calls at once
}

func newAPI(work func(n int)) (*fragileAPI, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	api := &fragileAPI{url: "http://" + listener.Addr().String(), work: work}
	api.server = &http.Server{Handler: api}
	go api.server.Serve(listener) // ends with close
	return api, nil
}

func (a *fragileAPI) close() { a.server.Close() }

func (a *fragileAPI) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n, ok := a.enter()
	defer a.leave(ok)
	if !ok {
		http.Error(w, "too many calls at once", http.StatusServiceUnavailable)
		return
	}
	a.work(n)
}

func (a *fragileAPI) enter() (n int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.present++
	a.seen.most = max(a.seen.most, a.present)
	if a.working == limit {
		a.seen.refused++
		return 0, false
	}
	a.working++
	a.seen.accepted++
	return a.seen.accepted, true
}

// leave runs before the answer is sent: when the caller has it, there is room.
func (a *fragileAPI) leave(worked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.present--
	if worked {
		a.working--
	}
}

func (a *fragileAPI) statistics() statistics {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

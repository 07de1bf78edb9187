package faultproxy

import (
	"sync"
	"time"
)

// parcel is a piece of a stream, or its end.
type parcel struct {
	data []byte
	end  error     // io.EOF if the sender closed its side
	due  time.Time // not to be delivered before
}

// queue holds what is on its way in one direction, without bound. One goroutine
// puts, one takes.
type queue struct {
	ready chan struct{} // has an element if parcels may be non-empty

	mu      sync.Mutex
	parcels []parcel // guarded by mu
}

func (q *queue) init() { q.ready = make(chan struct{}, 1) }

func (q *queue) put(p parcel) {
	q.mu.Lock()
	q.parcels = append(q.parcels, p)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take waits for the next parcel; it is false if done was closed before.
func (q *queue) take(done <-chan struct{}) (parcel, bool) {
	for {
		q.mu.Lock()
		if len(q.parcels) > 0 {
			p := q.parcels[0]
			q.parcels = q.parcels[1:]
			q.mu.Unlock()
			return p, true
		}
		q.mu.Unlock()
		select {
		case <-q.ready:
		case <-done:
			return parcel{}, false
		}
	}
}

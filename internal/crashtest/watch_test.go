package crashtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// watch is what was seen in Redis of one key, from reading to reading.
type watch struct {
	key    string
	queue  bool
	sights map[string]*sight // by token
	line   []head            // the head of the queue whenever it changed
	blind  [][2]int64        // from one reading to the next, µs, if that took long
	window int64             // the claim window, µs
	wrong  complaints        // with the readings
	offset int64             // server time less Clock, µs

	last    reading
	pending map[string]*sight // queued or held at the last reading
}

// sight is what was seen of a token.
type sight struct {
	ticket   int64 // 0: not seen in the queue
	queuedBy int64 // Clock after it was first seen there
	child    int
	grants   []granted
	lost     []int64 // server µs of readings in which it had just gone
	seen     int64   // server µs of the last reading that had it
}

// granted is one hold of a token.
type granted struct {
	fence int64
	end   int64 // of the lease as last seen, ms
	job   int64
	last  int64 // server µs of the last reading that had it
}

// head is the first in the queue, and the processes that wait, since a moment.
type head struct {
	since    int64 // server µs
	token    string
	children []int
}

func newWatch(key string, queue bool, lease time.Duration) *watch {
	return &watch{key: key, queue: queue, window: min(lease, 3*time.Second).Microseconds(),
		sights: make(map[string]*sight), pending: make(map[string]*sight)}
}

// see takes a reading; now is Clock after it.
func (w *watch) see(r reading, now int64) {
	w.wrong = append(w.wrong, r.check()...)
	if w.last.server != 0 && r.server-w.last.server > w.window*8/10 {
		w.blind = append(w.blind, [2]int64{w.last.server, r.server})
	}
	w.offset = r.server - now/1000
	for i, member := range r.waiters {
		token, _, _ := strings.Cut(member, " ")
		s := w.sight(token, r.server)
		if s.ticket == 0 {
			s.ticket, s.queuedBy, s.child = r.tickets[i], now, childOf(member)
		} else if s.ticket != r.tickets[i] {
			w.wrong.add(nil, "at %d: %s has ticket %d, had %d", r.server, token, r.tickets[i], s.ticket)
		}
	}
	for _, h := range r.holders {
		s := w.sight(h.token, r.server)
		s.child = h.child
		if n := len(s.grants); n == 0 || s.grants[n-1].fence != h.fence {
			s.grants = append(s.grants, granted{fence: h.fence, job: h.job})
		}
		g := &s.grants[len(s.grants)-1]
		g.end, g.last = h.end, r.server
	}
	for token, s := range w.pending {
		if s.seen != r.server {
			s.lost = append(s.lost, r.server)
			delete(w.pending, token)
		}
	}
	if !slices.Equal(r.waiters, w.last.waiters) {
		w.line = append(w.line, headOf(r))
	}
	w.last = r
}

func (w *watch) sight(token string, now int64) *sight {
	s := w.sights[token]
	if s == nil {
		s = &sight{}
		w.sights[token] = s
	}
	s.seen = now
	w.pending[token] = s
	return s
}

func headOf(r reading) head {
	h := head{since: r.server}
	for i, member := range r.waiters {
		if i == 0 {
			h.token, _, _ = strings.Cut(member, " ")
		}
		if child := childOf(member); !slices.Contains(h.children, child) {
			h.children = append(h.children, child)
		}
	}
	return h
}

// lastFence is that of the last grant seen, 0 if there was none.
func (s *sight) lastFence() int64 {
	if len(s.grants) == 0 {
		return 0
	}
	return s.grants[len(s.grants)-1].fence
}

// lostTurn says whether a queued token, whose last grant is that fence, may have missed
// an earlier turn: see checkOrder. A fence is the server time of its grant, µs.
func (w *watch) lostTurn(s *sight, fence int64) bool {
	for _, g := range s.grants {
		if g.fence < fence {
			return true
		}
	}
	for _, at := range s.lost {
		if at < fence {
			return true
		}
	}
	return w.wasBlind(s.ticket, fence)
}

// wasBlind says whether there was a long time without a reading, between two server
// times.
func (w *watch) wasBlind(from, to int64) bool {
	return slices.ContainsFunc(w.blind, func(gap [2]int64) bool { return gap[0] < to && from < gap[1] })
}

// quiet says that nobody holds or waits.
func (w *watch) quiet() bool { return len(w.last.holders) == 0 && len(w.last.waiters) == 0 }

// watcher reads many keys until it is stopped.
type watcher struct {
	mu    sync.Mutex
	users map[*watch]int // living processes; guarded by mu

	longest time.Duration // from one reading to the next
	rounds  int
	err     error
	stop    chan struct{}
	stopped chan struct{} // closed at the end; the fields are read after that
}

// watchPause is the time from one round of readings to the next.
const watchPause = 1500 * time.Microsecond

func startWatcher(conn redis.Conn) *watcher {
	w := &watcher{users: make(map[*watch]int), stop: make(chan struct{}), stopped: make(chan struct{})}
	go w.run(conn)
	return w
}

// add has a key watched that a process is going to use.
func (w *watcher) add(key *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[key]++
}

// leave says that a process is dead. When all are, the key is watched until nothing
// is held and nobody waits.
func (w *watcher) leave(key *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[key]--
}

// due are the keys to read.
func (w *watcher) due() (keys []*watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, users := range w.users {
		if users == 0 && key.last.server != 0 && key.quiet() {
			delete(w.users, key)
			key.last = reading{} // should it be used again: nobody did meanwhile
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

func (w *watcher) run(conn redis.Conn) {
	defer close(w.stopped)
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	for last := time.Now(); ; {
		if w.err = w.round(conn); w.err != nil {
			return
		}
		w.rounds++
		w.longest = max(w.longest, time.Since(last))
		last = time.Now()
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
	}
}

func (w *watcher) round(conn redis.Conn) error {
	keys := w.due()
	for _, key := range keys {
		sendReading(conn, key.key, key.queue)
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for _, key := range keys {
		r, err := receiveReading(conn, key.queue)
		if err != nil {
			return err
		}
		key.see(r, Clock())
	}
	return nil
}

// end stops the readings.
func (w *watcher) end() error {
	close(w.stop)
	<-w.stopped
	return w.err
}

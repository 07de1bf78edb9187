package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redsem/redsem/semaphore"
)

// record is what the goroutines of a history note together.
type record struct {
	plan
	start time.Time

	mu       sync.Mutex
	events   []*event    // guarded by mu
	tries    []tried     // guarded by mu
	locks    []*lock     // guarded by mu
	permits  []permitted // guarded by mu
	holds    int         // guarded by mu
	end      int64       // no lease is left by then
	surprise error       // the first error that nobody should see; guarded by mu
}

// lock is a hold by a token, which any process may use.
type lock struct {
	*hold
	extended int64 // the beginning of the last call that gave it the full lease; guarded by record.mu
	answered int64 // the end of that call; guarded by record.mu
	unsure   bool  // a call failed that may have extended it; guarded by record.mu
}

// tried and permitted are what is looked at again at the end.
type tried struct {
	*event
	*attempt
	process *process
}

type permitted struct {
	*hold
	*semaphore.Permit
}

func (r *record) now() int64 { return int64(time.Since(r.start)) }

// add notes an event that ends now.
func (r *record) add(e *event) *event {
	e.to = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return e
}

// answer is what an error says of a token: yes if there is none.
func (r *record) answer(err error) answer {
	switch {
	case err == nil:
		return yes
	case errors.Is(err, semaphore.ErrNotHeld):
		return no
	case !errors.Is(err, semaphore.ErrRedis):
		r.unexpected(err)
	}
	return silent
}

func (r *record) unexpected(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.surprise = errors.Join(r.surprise, err)
}

// worker is one goroutine of a process.
type worker struct {
	*record
	client  int
	process *process
	sem     *semaphore.Semaphore
	random  *rand.Rand
	trouble error // of the last acquire
	abandon bool  // it may leave permits to the end of their leases
	calls   int
}

// run works until the end of the part with faults, or until it has made enough calls.
func (w *worker) run() {
	for w.calls < w.mostCalls && time.Since(w.start) < w.length {
		switch n := w.random.IntN(100); {
		case n < 25:
			w.permit(1, true)
		case n < 33:
			w.permit(1+w.random.IntN(w.capacity), true)
		case n < 48:
			w.permit(1+w.random.IntN(w.capacity), false)
		case n < 65:
			w.lock()
		case n < 87:
			w.count()
		default:
			w.meddle()
		}
		w.sleep(w.rest)
	}
}

// sleep sleeps for so many ms at most.
func (w *worker) sleep(most int) {
	time.Sleep(time.Duration(w.random.IntN(most*1000)) * time.Microsecond)
}

// begin begins an event.
func (w *worker) begin(c call, h *hold) *event {
	w.calls++
	return &event{call: c, client: w.client, hold: h, from: w.now()}
}

// obtain makes a call that acquires n permits, and notes what came of it. got tells the
// token and the fence.
func (w *worker) obtain(n int, blocking bool, patience time.Duration, got func(ctx context.Context) (token string, fence int64, err error)) *hold {
	a := &attempt{}
	ctx := context.WithValue(context.Background(), attemptKey{}, a)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e := w.begin(failed, nil)
	e.n, e.blocking = n, blocking
	token, fence, err := got(ctx)
	w.trouble = err
	w.add(e)
	w.mu.Lock()
	w.tries = append(w.tries, tried{e, a, w.process})
	if err == nil {
		w.holds++
		e.call, e.hold = acquired, &hold{id: w.holds, n: n, token: token, fence: fence}
	}
	w.mu.Unlock()
	switch {
	case err == nil:
		return e.hold
	case errors.Is(err, semaphore.ErrNotAvailable) && !blocking:
		e.call = refused
	case !errors.Is(err, semaphore.ErrTimeout) && !errors.Is(err, semaphore.ErrRedis):
		w.unexpected(err)
	}
	return nil
}

// patience is how long a call waits: sometimes it ends about when the answer comes.
func (w *worker) patience() time.Duration {
	short := 6
	if w.hurry {
		short = 2
	}
	if w.random.IntN(short) == 0 {
		return time.Millisecond + time.Duration(w.random.IntN(20_000))*time.Microsecond
	}
	return 500*time.Millisecond + time.Duration(w.random.IntN(1000))*time.Millisecond
}

// permit acquires, holds for a while and gives back, or does not.
func (w *worker) permit(n int, blocking bool) {
	var p *semaphore.Permit
	h := w.obtain(n, blocking, w.patience(), func(ctx context.Context) (token string, fence int64, err error) {
		if blocking {
			p, err = w.sem.AcquireN(ctx, n)
		} else {
			p, err = w.sem.TryAcquireN(ctx, n)
		}
		if err != nil {
			return "", 0, err
		}
		return p.Token(), p.Fence(), nil
	})
	if h == nil {
		return
	}
	w.mu.Lock()
	w.permits = append(w.permits, permitted{h, p})
	w.mu.Unlock()
	w.sleep(w.keep)
	if w.random.IntN(6) == 0 {
		e := w.begin(asked, h)
		e.answer = w.answer(p.Refresh(context.Background()))
		w.told(e, p)
	}
	if w.random.IntN(6) == 0 {
		w.look(h)
	}
	if w.abandon && w.random.IntN(25) == 0 {
		return
	}
	for range 1 + w.random.IntN(8)/7 { // once, or twice
		w.release(h, p)
	}
}

// told notes what a call of a Permit said. Once the lease has ended by the local clock it
// says so without asking Redis, where the lease may last a little longer: that says
// nothing, then, of what Redis holds.
func (w *worker) told(e *event, p *semaphore.Permit) {
	if w.add(e); e.answer == no && e.to >= w.at(p.Deadline()) {
		e.answer = silent
	}
}

func (r *record) at(t time.Time) int64 { return int64(t.Sub(r.start)) }

func (w *worker) release(h *hold, p *semaphore.Permit) {
	e := w.begin(released, h)
	free, err := p.Release(context.Background())
	e.answer = w.answer(err)
	w.told(e, p)
	if err == nil {
		w.add(&event{call: atMost, client: w.client, from: e.from, free: free})
	}
}

// lock takes a token, holds it for a while and gives it back, or does not.
func (w *worker) lock() {
	l := w.take(w.patience())
	if l == nil {
		return
	}
	w.sleep(w.keep)
	if w.random.IntN(6) == 0 {
		w.look(l.hold)
	}
	if !w.abandon || w.random.IntN(25) > 0 {
		w.unlock(l)
	}
}

func (w *worker) take(patience time.Duration) *lock {
	from := w.now()
	h := w.obtain(1, true, patience, func(ctx context.Context) (string, int64, error) {
		token, err := w.sem.LockContext(ctx)
		return token, 0, err
	})
	if h == nil {
		return nil
	}
	l := &lock{hold: h, extended: from, answered: w.now()}
	w.mu.Lock()
	w.locks = append(w.locks, l)
	w.mu.Unlock()
	return l
}

// unlock gives a token back.
func (w *worker) unlock(l *lock) {
	e := w.begin(released, l.hold)
	e.answer = w.answer(w.sem.Unlock(l.token))
	w.add(e)
}

func (w *worker) count() {
	e := w.begin(counted, nil)
	free, err := w.sem.GetNumAvailableResources()
	if w.answer(err) == yes {
		e.free = free
		w.add(e)
	}
}

func (w *worker) look(h *hold) {
	e := w.begin(asked, h)
	held, err := w.sem.IsResourceLocked(h.token)
	if e.answer = w.answer(err); e.answer == yes && !held {
		e.answer = no
	}
	w.add(e)
}

// meddle does something with a token that somebody has, or had.
func (w *worker) meddle() {
	w.mu.Lock()
	var l *lock
	if n := len(w.locks); n > 0 {
		l = w.locks[max(n-1-w.random.IntN(4), 0)]
	}
	w.mu.Unlock()
	switch {
	case l == nil:
	case w.random.IntN(3) == 0:
		w.unlock(l)
	case w.random.IntN(2) == 0:
		w.refresh(l)
	default:
		w.look(l.hold)
	}
}

// refresh extends the lease of a token. If the answer took as long as the lease, Refresh
// says that nothing is held, without knowing.
func (w *worker) refresh(l *lock) {
	e := w.begin(asked, l.hold)
	e.answer = w.answer(w.sem.Refresh(l.token))
	if w.add(e); e.answer == no && e.to-e.from >= int64(w.expiration) {
		e.answer = silent
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.answer {
	case yes:
		l.extended, l.answered = max(l.extended, e.from), max(l.answered, e.to)
	case silent:
		l.unsure = true
	}
}

// history is what the record tells, when all that was begun has ended.
func (r *record) history() (*history, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &history{capacity: r.capacity, events: r.events, end: r.end}
	for _, p := range r.permits {
		p.earliest = r.at(p.Deadline()) - clocks
	}
	for _, l := range r.locks {
		l.earliest = l.extended + int64(r.expiration-time.Millisecond) - clocks
		if !l.unsure {
			l.latest = l.answered + int64(r.expiration+grace)
		}
	}
	for _, t := range r.tries {
		t.forgotten = t.process.forgotten(t.attempt, t.event, h.end)
	}
	if r.surprise != nil {
		return h, fmt.Errorf("an error that nobody should see: %w", r.surprise)
	}
	return h, nil
}

// clocks is by how much the server's clock may go ahead of the local one during a lease,
// where something adjusts it.
const clocks = int64(2 * time.Millisecond)

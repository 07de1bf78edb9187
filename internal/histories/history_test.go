package histories

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Times are nanoseconds since the start of the history, by the monotonic clock.

// hold is what one acquisition got.
type hold struct {
	id    int // from 1
	n     int
	token string
	fence int64 // 0: not known

	// earliest is the first moment at which its lease may have ended. The library
	// promises that Permit.Deadline is never later than the end in Redis, and that a
	// token is good for Expiration from its grant, which was not before its call.
	earliest int64

	// latest is when the lease has ended for sure, 0 if that is not known.
	latest int64
}

// call is the kind of an event.
type call string

const (
	acquired call = "acquired"
	failed   call = "acquire failed" // with an error that does not say what Redis has done
	refused  call = "refused"
	released call = "release"
	asked    call = "is it held"   // Refresh and IsResourceLocked
	counted  call = "how many"     // GetNumAvailableResources
	atMost   call = "at most free" // what Release answers: ended leases may count as held
)

// answer is what a call said.
type answer int

const (
	silent answer = iota // it failed, or said nothing of what Redis holds
	yes
	no
)

// event is one call.
type event struct {
	call
	client    int
	from, to  int64
	hold      *hold
	answer    answer
	n         int // permits asked for
	free      int
	blocking  bool    // an acquire that waits
	forgotten []ghost // what the acquire may have got besides
}

// ghost is permits that may have been granted to a token of which no caller was told, or
// the place that it may have in the queue: while the acquire was under way, and until
// Redis has confirmed that the token has left. If its caller was told of it
// only after as long as a lease, it may have been granted twice: the news of the first was
// lost, or came too late, and that lease had ended when it was queued, or asked for, again.
type ghost struct {
	n  int
	to int64
}

// history is what the callers of one semaphore saw.
type history struct {
	capacity int
	events   []*event
	end      int64 // no lease, and no ghost, is left by then
}

// operations tells the checker of a history.
//
// A call takes effect, at one moment, between its beginning and its end: so the library
// promises, even if the step was sent many times, for only one of them counts. Some calls
// are told otherwise:
//
//   - A hold that no call has released ends by itself, in an operation of nobody:
//     it begins when the lease may first have ended, or with the first release of which
//     the outcome is not known, for that may have done it; and it ends when the lease has
//     ended for sure. It is pending in between: so both outcomes of such a release
//     are allowed, and the checker may let the lease end as late as suits the answers, or
//     as early. A hold that was released by a call that began after the end of its lease
//     has such an operation too, so that the release is found to be wrong.
//   - An acquire that failed may have been granted, for some time. Nobody is told, so that
//     shows only in what others are told of the free permits: see unknown.
//   - Release tells how many are free, which is a reading of its own, some time during
//     the call. It counts leases that have ended as held, as long as nobody has taken
//     them back: so it is a bound from above.
//   - A try may be refused because somebody is waiting. Places in the queue are not part
//     of the model, so a try that overlaps with a waiter, or a ghost, says nothing.
func (h *history) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(client int, from, to int64, s step) {
		s.capacity = h.capacity
		ops = append(ops, porcupine.Operation{ClientId: client, Input: s, Call: from, Return: to})
	}
	ranks := h.ranks()
	for _, e := range h.events {
		s := step{n: e.n, free: e.free}
		if e.hold != nil {
			s.id, s.n = e.hold.id, e.hold.n
		}
		switch {
		case e.call == acquired:
			s.what, s.rank, s.fence = grants, ranks[e.hold], e.hold.fence
		case e.call == released && e.answer == yes:
			s.what = ends
		case e.call == asked && e.answer == yes:
			s.what = holds
		case (e.call == asked || e.call == released) && e.answer == no:
			s.what = not
		case e.call == counted:
			s.what, s.unknown = counts, h.unknown(e)
		case e.call == atMost:
			s.what, s.unknown = counts, anything
		case e.call == refused && h.unknown(e) == 0 && !h.waiting(e):
			s.what = refuses
		default:
			continue
		}
		add(e.client, e.from, e.to, s)
	}
	environment := h.clients()
	for _, hold := range h.holds() {
		if from, to, ok := h.lapse(hold); ok {
			add(environment, from, to, step{what: lapses, id: hold.id, n: hold.n})
		}
	}
	return ops
}

// holds are all holds, by id.
func (h *history) holds() []*hold {
	var all []*hold
	for _, e := range h.events {
		if e.call == acquired {
			all = append(all, e.hold)
		}
	}
	return all
}

// ranks are the places of the holds with known fences in the order of those.
func (h *history) ranks() map[*hold]int {
	fenced := slices.DeleteFunc(h.holds(), func(hold *hold) bool { return hold.fence == 0 })
	slices.SortStableFunc(fenced, func(a, b *hold) int { return cmp.Compare(a.fence, b.fence) })
	ranks := make(map[*hold]int)
	for i, hold := range fenced {
		ranks[hold] = i + 1
	}
	return ranks
}

// clients is how many there are.
func (h *history) clients() (n int) {
	for _, e := range h.events {
		n = max(n, e.client+1)
	}
	return n
}

// lapse is when a hold may have ended without a call that says so; false if it has not.
func (h *history) lapse(hold *hold) (from, to int64, ok bool) {
	from, to, ok = hold.earliest, h.end, true
	for _, e := range h.events {
		if e.call != released || e.hold != hold {
			continue
		}
		if e.answer == silent {
			from = min(from, e.from)
		}
		if e.answer == yes && (hold.latest == 0 || e.from <= hold.latest) {
			ok = false
		}
	}
	if hold.latest > 0 {
		to = min(to, hold.latest)
	}
	return from, max(from, to), ok
}

// unknown is how many permits may be held, while an event lasts, by ghosts.
func (h *history) unknown(e *event) (n int) {
	for _, other := range h.events {
		for _, g := range other.forgotten {
			if other != e && other.from <= e.to && g.to >= e.from {
				n += g.n
			}
		}
	}
	return n
}

// waiting says whether somebody may be waiting while an event lasts.
func (h *history) waiting(e *event) bool {
	return slices.ContainsFunc(h.events, func(other *event) bool {
		return other != e && other.blocking && other.from <= e.to && other.to >= e.from
	})
}

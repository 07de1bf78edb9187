package histories

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// mostCapacity is the greatest capacity of a history, and so the most holds at a time.
const mostCapacity = 3

// state is that of the semaphore: who holds, and how many permits in all; how many of the
// grants whose fences are known there were, and the fence of the last of them.
type state struct {
	used  int
	holds [mostCapacity]int // ids in ascending order, zeros last
	rank  int
	fence int64
}

func (s state) has(id int) bool { return slices.Contains(s.holds[:], id) }

// with is the state with one hold more, false if there is no place for it.
func (s state) with(id int) (state, bool) {
	at := slices.Index(s.holds[:], 0)
	if at < 0 || s.has(id) {
		return s, false
	}
	s.holds[at] = id
	slices.Sort(s.holds[:at+1])
	return s, true
}

// without is the state with one hold less.
func (s state) without(id int) state {
	at := slices.Index(s.holds[:], id)
	copy(s.holds[at:], s.holds[at+1:])
	s.holds[mostCapacity-1] = 0
	return s
}

// what is the kind of a step of the model.
type what string

const (
	grants  what = "grant"    // permits are granted
	ends    what = "release"  // the hold is given back by a call that says so
	lapses  what = "lapse"    // the hold ends without such a call: its lease ends, or a call of unknown outcome did it
	holds   what = "holds"    // somebody is told that the token holds
	not     what = "not held" // somebody is told that it does not
	counts  what = "free"     // somebody is told how many permits are free
	refuses what = "refuse"   // a try is told that there are not enough
)

// anything is more permits than there ever are.
const anything = 1 << 30

// step is one operation, as the model sees it.
type step struct {
	what
	capacity int
	id       int // of the hold
	n        int // permits: of the hold, or asked for
	rank     int // of a grant with a known fence: its place in the order of the fences, from 1
	fence    int64
	free     int // what was told
	unknown  int // of a count: permits that may be held besides, by holds that nobody knows of
}

// next says whether a step is possible, and the state after it.
//
//   - A grant needs room: held + n <= capacity. Its fence must be greater than that of
//     every grant before it. All grants are in the history, so the order of the fences
//     is the order of the grants, and the next grant with a fence can only be the one
//     that is next by its rank: to say so spares the checker most of its search. Tokens
//     have no fence that users see: a grant of one may come at any place.
//   - A hold ends once: by a release that succeeds, or by lapse, which the history
//     contains only for holds that nobody has released.
//   - Who is told that a token holds, or does not, is told the truth.
//   - So is who is told how many are free, but that a waiter that gives up, or whose
//     answer is lost, may hold permits that no hold of the history accounts for: the
//     count may be lower by those, and never higher than what is really free.
//   - A refusal is right if fewer are free than were asked for.
func next(s state, in step) (bool, state) {
	switch in.what {
	case grants:
		after, ok := s.with(in.id)
		if !ok || s.used+in.n > in.capacity {
			return false, s
		}
		if in.rank > 0 {
			if in.rank != s.rank+1 || in.fence <= s.fence {
				return false, s
			}
			after.rank, after.fence = in.rank, in.fence
		}
		after.used += in.n
		return true, after
	case ends, lapses:
		if !s.has(in.id) {
			return false, s
		}
		s.used -= in.n
		return true, s.without(in.id)
	case holds:
		return s.has(in.id), s
	case not:
		return !s.has(in.id), s
	case counts:
		free := in.capacity - s.used
		return in.free <= free && in.free >= max(free-in.unknown, 0), s
	case refuses:
		return s.used+in.n > in.capacity, s
	}
	return false, s
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) {
		ok, after := next(s.(state), in.(step))
		return ok, after
	},
	DescribeOperation: func(in, _ any) string { return in.(step).String() },
	DescribeState: func(s any) string {
		return fmt.Sprintf("%d held by %v, fence %d", s.(state).used, s.(state).holds, s.(state).fence)
	},
}

// String says what an operation was.
func (s step) String() string {
	switch s.what {
	case grants:
		return fmt.Sprintf("grant #%d: %d, fence %d", s.id, s.n, s.fence)
	case counts:
		if s.unknown == anything {
			return fmt.Sprintf("free: %d at most", s.free)
		}
		return fmt.Sprintf("free: %d (%d unknown)", s.free, s.unknown)
	case refuses:
		return fmt.Sprintf("refuse %d", s.n)
	}
	return fmt.Sprintf("%s #%d", s.what, s.id)
}

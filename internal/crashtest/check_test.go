package crashtest

import (
	"cmp"
	"slices"
)

// checkCapacity finds moments at which more permits are held than there are.
func checkCapacity(all []*operation, capacity int) (wrong complaints) {
	type change struct {
		at      int64
		permits int
		o       *operation
	}
	var changes []change
	for _, o := range held(all) {
		if o.holds < o.end() {
			changes = append(changes, change{o.holds, o.permits, o}, change{o.end(), -o.permits, o})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.permits, b.permits)) // ends first
	})
	inside, sum := make(map[*operation]bool), 0
	for _, c := range changes {
		sum += c.permits
		if c.permits < 0 {
			delete(inside, c.o)
			continue
		}
		inside[c.o] = true
		if sum > capacity {
			var who []*operation
			for o := range inside {
				who = append(who, o)
			}
			wrong.add(who, "%d of %d permits are held at %d", sum, capacity, c.at)
		}
	}
	return wrong
}

// moment is when something is known of a fence.
type moment struct {
	at    int64
	fence int64
	who   []*operation
}

// checkBefore finds fences of later that are not greater than all of earlier that were
// known before them.
func checkBefore(earlier, later []moment, what string) (wrong complaints) {
	byTime := func(a, b moment) int { return cmp.Compare(a.at, b.at) }
	earlier, later = slices.SortedFunc(slices.Values(earlier), byTime), slices.SortedFunc(slices.Values(later), byTime)
	var most moment
	for _, l := range later {
		for len(earlier) > 0 && earlier[0].at < l.at {
			if earlier[0].fence > most.fence {
				most = earlier[0]
			}
			earlier = earlier[1:]
		}
		if l.fence <= most.fence {
			wrong.add(append(slices.Clone(most.who), l.who...), "%s: fence %d, known at %d, then %d, asked for at %d",
				what, most.fence, most.at, l.fence, l.at)
		}
	}
	return wrong
}

// checkFences finds fences that two have, and those that are not greater although the
// one was asked for when the other was held already.
func checkFences(all []*operation) (wrong complaints) {
	var earlier, later []moment
	owners := make(map[int64]*operation)
	for _, o := range held(all) {
		if o.fence == 0 {
			continue
		}
		if other := owners[o.fence]; other != nil {
			wrong.add([]*operation{other, o}, "fence %d twice", o.fence)
		}
		owners[o.fence] = o
		earlier = append(earlier, moment{o.holds, o.fence, []*operation{o}})
		later = append(later, moment{o.asked, o.fence, []*operation{o}})
	}
	return append(wrong, checkBefore(earlier, later, "fences do not increase")...)
}

// checkOutcomes finds calls that failed; permits that were lost before their lease's
// end; and operations without an end though nobody killed their process.
func checkOutcomes(all []*operation) (wrong complaints) {
	for _, o := range all {
		about := []*operation{o}
		switch {
		case o.outcome == Failed:
			wrong.add(about, "a call has failed")
		case o.outcome == Lost && o.ended < o.until-drift:
			wrong.add(about, "lost before the end of the lease")
		case o.outcome == "" && !o.cut:
			wrong.add(about, "an operation has no end")
		}
	}
	return wrong
}

// checkOrder finds grants that did not follow the tickets which the watcher has seen.
// Beside two that were both seen in the queue it compares one that was seen there with
// all that asked later.
//
// A token is left out if it may have lost its turn, which happens in two ways only. It
// was granted, and nobody used the grant, for its process was too slow by the whole
// claim window: then the last fence is that of another turn. Or it had no place in the
// queue for a while, for its process gave no sign of life during the claim window: then
// those behind it went on. Both can be seen by the watcher, unless it was blind for about
// the claim window.
func checkOrder(all []*operation, w *watch) (wrong complaints) {
	byToken := make(map[string]*operation)
	var later []moment
	for _, o := range held(all) {
		if o.fence != 0 {
			byToken[o.token] = o
			later = append(later, moment{o.asked, o.fence, []*operation{o}})
		}
	}
	var queued, tickets []moment
	for token, s := range w.sights {
		o := byToken[token]
		var who []*operation
		fence := s.lastFence()
		if o != nil {
			fence, who = o.fence, []*operation{o}
		}
		if s.ticket == 0 || fence == 0 || w.lostTurn(s, fence) {
			continue
		}
		queued = append(queued, moment{s.queuedBy, fence, who})
		tickets = append(tickets, moment{s.ticket, fence, who})
	}
	wrong = checkBefore(tickets, tickets, "grants do not follow tickets")
	return append(wrong, checkBefore(queued, later, "a waiter was overtaken")...)
}

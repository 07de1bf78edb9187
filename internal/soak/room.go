package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// hold is a time in which somebody believes to hold permits.
type hold struct {
	asked, from, end int64
	until            int64 // the lease does not end before
	permits          int
	fence            int64 // 0: not known
	left             bool
}

// room is a semaphore, seen by those who are inside.
type room struct {
	capacity int    // the highest one
	holds    []hold // that are over, and not judged yet
	inside   []hold // as far as judged
	fences   []hold // grants, not judged yet
	granted  []rise // as far as judged, by time
	most     int    // inside at once
}

// rise is the greatest fence that was known from some time on.
type rise struct{ from, fence int64 }

// maxRises are kept; an operation that began before the first of them is judged against
// nothing.
const maxRises = 20_000

// add takes a hold that is over, but for the part after a loss of its lease.
func (r *room) add(h hold, losses []loss) {
	for _, l := range losses {
		h = h.cut(l)
	}
	if h.from < h.end {
		r.holds = append(r.holds, h)
	}
}

// cut ends a hold where its lease was lost.
func (h hold) cut(l loss) hold {
	before := h.fence <= l.floor
	if h.fence == 0 {
		before = h.asked < l.to
	}
	if before && h.from < l.to {
		h.end = min(h.end, l.from)
	} else if before { // the news came late
		h.end = h.from
	}
	return h
}

// lost cuts the holds that are known already.
func (r *room) lost(l loss) {
	for i := range r.holds {
		r.holds[i] = r.holds[i].cut(l)
	}
	for i := range r.inside {
		r.inside[i] = r.inside[i].cut(l)
	}
}

// judge counts who was inside until some time; all holds that began before are
// known.
func (r *room) judge(known int64, blame func(at int64, text string)) {
	slices.SortFunc(r.holds, func(a, b hold) int { return cmp.Compare(a.from, b.from) })
	n := 0
	for ; n < len(r.holds) && r.holds[n].from < known; n++ {
		h := r.holds[n]
		if h.from >= h.end {
			continue
		}
		r.inside = append(slices.DeleteFunc(r.inside, func(o hold) bool { return o.end <= h.from }), h)
		count := 0
		for _, o := range r.inside {
			count += o.permits
		}
		r.most = max(r.most, count)
		if count > r.capacity {
			blame(h.from, fmt.Sprintf("%d of %d inside: %s", count, r.capacity, list(r.inside, h.from)))
		}
	}
	r.holds = slices.Delete(r.holds, 0, n)
	r.judgeFences(known, blame)
}

// list is for people.
func list(holds []hold, at int64) (text string) {
	for _, h := range holds {
		text += fmt.Sprintf("[%d permits, fence %d, from %v to %v] ", h.permits, h.fence,
			time.Duration(h.from-at), time.Duration(h.end-at))
	}
	return text
}

// judgeFences requires that a fence is greater than all that were known before it
// was asked for.
func (r *room) judgeFences(known int64, blame func(at int64, text string)) {
	n := 0
	for ; n < len(r.fences) && r.fences[n].from < known; n++ {
		h := r.fences[n]
		if h.fence == 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(r.granted, h.asked, func(s rise, at int64) int { return cmp.Compare(s.from, at) })
		last := int64(0)
		if len(r.granted) > 0 {
			last = r.granted[len(r.granted)-1].fence
		}
		if i > 0 && r.granted[i-1].fence >= h.fence {
			blame(h.from, fmt.Sprintf("fence %d was granted after %d was known", h.fence, r.granted[i-1].fence))
		}
		r.granted = append(r.granted, rise{h.from, max(last, h.fence)})
	}
	r.fences = slices.Delete(r.fences, 0, n)
	if len(r.granted) > 2*maxRises {
		r.granted = append([]rise(nil), r.granted[len(r.granted)-maxRises:]...)
	}
}

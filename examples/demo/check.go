package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// comeback is how long after the end of a dead process's lease its permit may
// stay unused, while others wait. It takes some milliseconds; the rest is for a busy
// machine.
const comeback = time.Second

// evidence is what the checks go by: the records of the workers, and what the
// parent saw or found out itself.
type evidence struct {
	capacity int
	lease    time.Duration
	visits   []visit
	gaps     []gap

	packages []string
	files    int
	digests  map[string]string // package → what the parent's own hashing gives

	victim   string        // the worker that was killed
	killedAt time.Duration // when that was
	free     int           // permits at the end
}

// verdict is the outcome of one check.
type verdict struct {
	text   string
	note   string   // what else there is to know, or ""
	faults []string // none: all is well
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// check looks for violations of what redsem promises.
func check(e evidence) []verdict {
	return []verdict{
		checkInside(e),
		checkOrder(e),
		checkWork(e),
		checkVictim(e),
		checkFree(e),
	}
}

// held are the visits that got a permit, in the order of the grants.
func (e evidence) held() []visit {
	held := slices.DeleteFunc(slices.Clone(e.visits), func(v visit) bool { return v.got == 0 })
	slices.SortFunc(held, func(a, b visit) int { return cmp.Compare(a.fence, b.fence) })
	return held
}

// killed is the visit over which the victim was killed, or nil.
func (e evidence) killed() *visit {
	for i, v := range e.visits {
		if v.worker == e.victim && v.got != 0 && v.ended == 0 {
			return &e.visits[i]
		}
	}
	return nil
}

// step is a change of how many are inside.
type step struct {
	at time.Duration
	by int
	visit
}

// steps are the comings and goings of visits in the order of time. At the same
// moment goings come first: only what is certain is a fault.
func steps(visits []visit) []step {
	var all []step
	for _, v := range visits {
		all = append(all, step{v.got, +1, v}, step{v.until(), -1, v})
	}
	slices.SortFunc(all, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by))
	})
	return all
}

// checkInside: a worker is inside at least from the record after Acquire to the
// record before Release, so if more than the capacity are at once by these
// records, they were. A killed worker counts until its lease has ended: that long
// Redis must not give its permit to another.
func checkInside(e evidence) verdict {
	v := verdict{text: fmt.Sprintf("never more than %d inside; %s counts until its lease ended", e.capacity, e.victim)}
	inside := 0
	for _, s := range steps(e.held()) {
		inside += s.by
		if s.by > 0 && inside > e.capacity {
			v.fault("%d inside at %s, when %s came in for %s", inside, seconds(s.at), s.worker, s.pkg)
		}
	}
	return v
}

// checkOrder: grants, the order of which is that of the fences, come in the order
// of arrival. That is the order of the tickets that Redis drew; and, as a check of
// these, a request must have a lower one than any that was made after it had
// been answered. Requests that were under way at the same time, in different
// processes, may have reached Redis in either order: the times of asking alone say
// nothing about them.
//
// Whoever was cut off from Redis while it waited may have lost its place.
func checkOrder(e evidence) verdict {
	held := e.held()
	waited, excused := 0, 0
	v := verdict{}
	for i, b := range held {
		if b.ticket != 0 {
			waited++
		}
		if b.fence < b.ticket {
			v.fault("%s has a fence below its ticket", b.visit())
		}
		cut := e.cutOff(b.worker, b.asked, b.got)
		for _, a := range held[:i] { // granted before b
			switch overtaken := a.arrival() > b.arrival() || b.answered() < a.asked; {
			case a.fence == b.fence:
				v.fault("%s and %s got the same fence", a.visit(), b.visit())
			case overtaken && cut:
				excused++
			case a.arrival() > b.arrival():
				v.fault("%s overtook %s, which had the lower ticket", a.visit(), b.visit())
			case overtaken:
				v.fault("%s overtook %s, which was queued before it asked", a.visit(), b.visit())
			}
		}
	}
	v.text = fmt.Sprintf("first come, first served: %d grants in the order of arrival, %d after a wait", len(held), waited)
	if excused > 0 {
		v.note = fmt.Sprintf("but for %d that overtook a process which was cut off from Redis", excused)
	}
	return v
}

// cutOff says whether a worker (any, if it is "") heard nothing from Redis for long,
// at some time between two.
func (e evidence) cutOff(worker string, from, to time.Duration) bool {
	return slices.ContainsFunc(e.gaps, func(g gap) bool {
		return (worker == "" || worker == g.worker) && g.from < to && from < g.to
	})
}

func (v visit) visit() string { return fmt.Sprintf("%s (%s)", v.worker, v.pkg) }

// checkWork: every package was hashed once, to the end, and rightly.
func checkWork(e evidence) verdict {
	v := verdict{text: fmt.Sprintf("nothing lost: %d packages (%d files) hashed, each once, and rightly", len(e.packages), e.files)}
	done := make(map[string][]string)
	for _, visit := range e.visits {
		if !visit.left {
			continue
		}
		done[visit.pkg] = append(done[visit.pkg], visit.worker)
		expected, ok := e.digests[visit.pkg]
		switch {
		case !ok:
			v.fault("%s hashed %s, which was nobody's job", visit.worker, visit.pkg)
		case visit.digest != expected:
			v.fault("%s hashed %s wrongly: %.12q…, not %.12q…", visit.worker, visit.pkg, visit.digest, expected)
		}
	}
	for _, pkg := range e.packages {
		switch by := done[pkg]; {
		case len(by) == 0:
			v.fault("%s was lost: nobody hashed it to the end", pkg)
		case len(by) > 1:
			v.fault("%s was hashed %d times, by %v", pkg, len(by), by)
		}
	}
	return v
}

// checkVictim: a worker was killed inside, another took its job over, and its
// permit was in use again soon after its lease ended.
func checkVictim(e evidence) verdict {
	v := verdict{text: e.victim + " was killed while inside"}
	killed := e.killed()
	if killed == nil && e.cutOff(e.victim, 0, e.killedAt) {
		v.note = "but it had lost its permit just before: it was cut off from Redis"
		return v
	}
	if killed == nil {
		v.fault("%s was not inside when it was killed", e.victim)
		return v
	}
	heir := "nobody"
	for _, other := range e.visits {
		if other.left && other.pkg == killed.pkg {
			heir = other.worker
		}
	}
	back, ok := e.backAt()
	switch latest := e.killedAt + e.lease + comeback; {
	case !ok:
		v.fault("the permit of %s was never in use again", e.victim)
	case back > latest && !e.cutOff("", killed.deadline, back):
		v.fault("the permit of %s was in use again only at %s, must be by %s", e.victim, seconds(back), seconds(latest))
	}
	late := (back - killed.deadline).Round(time.Millisecond)
	v.text = fmt.Sprintf("%s died inside: permit back %v after its lease ended, job done by %s", e.victim, late, heir)
	return v
}

// backAt is when as many as the capacity were inside again, without the victim.
func (e evidence) backAt() (time.Duration, bool) {
	living := slices.DeleteFunc(e.held(), func(v visit) bool { return v.worker == e.victim && v.ended == 0 })
	inside := 0
	for _, s := range steps(living) {
		inside += s.by
		if inside >= e.capacity && s.by > 0 && s.at >= e.killedAt {
			return s.at, true
		}
	}
	return 0, false
}

func checkFree(e evidence) verdict {
	v := verdict{text: fmt.Sprintf("all %d permits are free again", e.capacity)}
	if e.free != e.capacity {
		v.fault("%d permits are free at the end, must be %d", e.free, e.capacity)
	}
	return v
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

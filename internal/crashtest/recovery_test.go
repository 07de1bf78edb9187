package crashtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// recovery is how the permits of a holder that was killed came to the next.
type recovery struct {
	late  time.Duration // from the end of the lease to the next grant
	first bool          // that went to the head of the queue, whose process lived
	who   string
}

// recoveries are those of a key where somebody waited who was alive all the time.
func recoveries(lives []life, all []*operation, w *watch) (found []recovery) {
	deaths := make(map[int]int64) // server µs; processes that were not killed have none
	for _, l := range lives {
		if l.killed != 0 {
			deaths[l.child] = l.killed/1000 + w.offset
		}
	}
	var fences []int64 // of all grants that are known
	for _, o := range held(all) {
		if o.fence != 0 {
			fences = append(fences, o.fence)
		}
	}
	for _, s := range w.sights {
		for _, g := range s.grants {
			fences = append(fences, g.fence)
		}
	}
	slices.Sort(fences)
	for token, s := range w.sights {
		for _, g := range s.grants {
			end := g.end * 1000
			if died := deaths[s.child]; died == 0 || g.last <= died {
				continue // it was not in Redis any more when its process was dead
			}
			line, ok := w.lineAt(end)
			i, _ := slices.BinarySearch(fences, end)
			if !ok || i == len(fences) {
				continue
			}
			next := fences[i]
			alive := func(child int) bool { return deaths[child] == 0 || deaths[child] > next }
			if !slices.ContainsFunc(line.children, alive) {
				continue
			}
			h := w.sights[line.token]
			atHead := h.lastFence() == next || fenceOf(all, line.token) == next
			found = append(found, recovery{
				late:  time.Duration(next-end) * time.Microsecond,
				first: atHead && alive(h.child),
				who:   fmt.Sprintf("%s of process %d, lease until %d ms, then fence %d", token, s.child, g.end, next),
			})
		}
	}
	return found
}

func fenceOf(all []*operation, token string) int64 {
	for _, o := range all {
		if o.token == token {
			return o.fence
		}
	}
	return 0
}

// lineAt is the queue as last seen before a server time, false if nobody waited.
func (w *watch) lineAt(at int64) (head, bool) {
	i, _ := slices.BinarySearchFunc(w.line, at, func(h head, at int64) int { return cmp.Compare(h.since, at) })
	if i == 0 || w.line[i-1].token == "" {
		return head{}, false
	}
	return w.line[i-1], true
}

// mostLate is the longest that a recovery may take here. Promised are 100 ms if the head
// is alive, and the claim window for each process before it that died unnoticed; the
// machine may be busy.
const mostLate = 10 * time.Second

func checkRecoveries(found []recovery) (wrong complaints) {
	for _, r := range found {
		if r.late > mostLate {
			wrong.add(nil, "the next grant came %v after the end of the lease: %s", r.late, r.who)
		}
	}
	return wrong
}

// spread says how durations are distributed.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return fmt.Sprintf("%d: median %v, 99 %% %v, max %v", len(all),
		all[len(all)/2], all[(99*len(all)-1)/100], all[len(all)-1])
}

package crashtest

import (
	"cmp"
	"slices"
)

// batch is what one Signal was given.
type batch struct {
	values    []string
	confirmed bool // Signal has succeeded
}

func batches(lives []life) []*batch {
	var all []*batch
	for _, l := range lives {
		byNumber := make(map[int64]*batch)
		for _, r := range l.records {
			switch r.Event {
			case Signals:
				byNumber[r.Op] = &batch{values: r.Values}
				all = append(all, byNumber[r.Op])
			case Signalled:
				byNumber[r.Op].confirmed = true
			}
		}
	}
	return all
}

// checkJobs finds jobs that were lost, or invented, or doubled. When it is called, no
// job is left in the queue.
func checkJobs(lives []life, all []*operation, once bool) (wrong complaints) {
	deliveries := make(map[string][]*operation)
	for _, o := range held(all) {
		deliveries[o.value] = append(deliveries[o.value], o)
	}
	known, lost := make(map[string]bool), 0
	for _, b := range batches(lives) {
		came := 0
		for _, value := range b.values {
			known[value] = true
			if len(deliveries[value]) > 0 {
				came++
			}
			if once || !b.confirmed && len(deliveries[value]) == 0 {
				continue
			}
			if !slices.ContainsFunc(deliveries[value], (*operation).maybeDone) {
				wrong.add(deliveries[value], "job %s was not done", value)
			}
		}
		if b.confirmed {
			lost += len(b.values) - came
		} else if !once && came != 0 && came != len(b.values) {
			wrong.add(nil, "of the jobs %q of one signal %d came", b.values, came)
		}
	}
	for value, of := range deliveries {
		if !known[value] {
			wrong.add(of, "job %s was never signalled", value)
		}
		for _, o := range of[1:] {
			if once || o.job != of[0].job {
				wrong.add(of, "job %s came twice", value)
			}
		}
	}
	// Each consumer that was killed in its Wait may have had one job handed over.
	if atRisk := unanswered(all); once && lost > atRisk {
		wrong.add(nil, "%d jobs are lost, of %d at risk", lost, atRisk)
	}
	return append(wrong, checkDone(all)...)
}

// unanswered counts those that were killed before they knew what they were given.
func unanswered(all []*operation) (n int) {
	for _, o := range all {
		if o.cut && o.holds == 0 && o.outcome == "" {
			n++
		}
	}
	return n
}

// byJob groups deliveries by job, each in the order of their fences.
func byJob(all []*operation) map[int64][]*operation {
	jobs := make(map[int64][]*operation)
	for _, o := range held(all) {
		if o.job != 0 {
			jobs[o.job] = append(jobs[o.job], o)
		}
	}
	for _, of := range jobs {
		slices.SortFunc(of, func(a, b *operation) int { return cmp.Compare(a.fence, b.fence) })
	}
	return jobs
}

// checkDone finds jobs that were delivered again although they were done, and those that
// two consumers had at once.
func checkDone(all []*operation) (wrong complaints) {
	for id, of := range byJob(all) {
		for i, o := range of {
			later := of[i+1:]
			if o.done() && len(later) > 0 {
				wrong.add(of, "job %d was delivered after it was done", id)
			}
		}
		wrong = append(wrong, checkCapacity(of, 1)...)
	}
	return wrong
}

// checkJobOrder finds jobs that were first granted after one with a greater id. stop is
// the server time (µs) from which consumers are cancelled: a job that one of them was
// granted is back before anybody sees it. Up to then a grant that no consumer has recorded
// lasts for the claim window, and so is seen by the watcher, unless that was blind.
func checkJobOrder(all []*operation, w *watch, stop int64) complaints {
	first := make(map[int64]int64) // fence by id
	note := func(id, fence int64) {
		if first[id] == 0 || fence < first[id] {
			first[id] = fence
		}
	}
	jobs := byJob(all)
	for id, of := range jobs {
		note(id, of[0].fence)
	}
	for _, s := range w.sights {
		for _, g := range s.grants {
			note(g.job, g.fence)
		}
	}
	var earlier, later []moment
	for id, fence := range first {
		if w.wasBlind(id, fence) { // an id is the server time of its signal
			continue
		}
		m := moment{id, fence, jobs[id]}
		later = append(later, m)
		if fence < stop {
			earlier = append(earlier, m)
		}
	}
	return checkBefore(earlier, later, "jobs are out of order")
}

package simulation

import (
	"fmt"
	"strconv"
	"strings"
)

// reading is what the server has.
type reading struct {
	now        int64
	exists     bool // the name does
	capacity   int64
	free, sum  int64  // permits in the list, and held by the records
	held       string // as the name counts
	locked     map[string]record
	leases     map[string]string
	queue      []place // by ticket
	clients    map[string]string
	jobs       int // of a queue, all
	jobsReady  int
	jobsUnique map[string]bool // ids of those that are ready or held
	bad        bool            // one is so twice
}

type record struct{ permits, end, fence int64 }

// place is one in the queue.
type place struct {
	token, client string
	permits       int64
	ticket        float64
}

// read reads all that the checks look at.
func (w *world) read() reading {
	r := reading{now: w.serverNow().UnixMilli(), locked: make(map[string]record), jobsUnique: make(map[string]bool)}
	name := pairs(w.do("HGETALL", w.key("")))
	r.exists = len(name) > 0
	r.capacity, _ = strconv.ParseInt(name["capacity"], 10, 64)
	r.held = name["held"]
	for token, text := range pairs(w.do("HGETALL", w.key(":locked"))) {
		fields := strings.Fields(text)
		if w.Queue && len(fields) > 4 {
			r.count(fields[4])
		}
		fields = append(fields, "", "", "") // a faulty script may have written less
		var n [3]int64
		for i := range n {
			n[i], _ = strconv.ParseInt(fields[i], 10, 64)
		}
		r.locked[token] = record{n[0], n[1], n[2]}
		r.sum += n[0]
	}
	r.leases = pairs(w.do("ZRANGE", w.key(":leases"), "0", "-1", "WITHSCORES"))
	queue := w.do("ZRANGE", w.key(":queue"), "0", "-1", "WITHSCORES").([]any)
	for i := 0; i+1 < len(queue); i += 2 {
		fields := append(strings.Fields(queue[i].(string)), "", "", "", "")
		ticket, _ := strconv.ParseFloat(queue[i+1].(string), 64)
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		r.queue = append(r.queue, place{fields[0], fields[3], n, ticket})
	}
	r.clients = pairs(w.do("ZRANGE", w.key(":clients"), "0", "-1", "WITHSCORES"))
	if w.Queue {
		ready := w.do("ZRANGE", w.key(":available"), "0", "-1").([]any)
		r.jobs, r.jobsReady = len(pairs(w.do("HGETALL", w.key(":jobs")))), len(ready)
		for _, member := range ready {
			id, _, _ := strings.Cut(member.(string), " ")
			r.count(id)
		}
		return r
	}
	r.free = w.do("LLEN", w.key(":available")).(int64)
	return r
}

// count counts a job that is ready or held.
func (r *reading) count(id string) {
	r.bad = r.bad || r.jobsUnique[id]
	r.jobsUnique[id] = true
}

// pairs makes a map of a reply that lists keys and values in turn.
func pairs(reply any) map[string]string {
	all, _ := reply.([]any)
	m := make(map[string]string)
	for i := 0; i+1 < len(all); i += 2 {
		m[all[i].(string)] = all[i+1].(string)
	}
	return m
}

// whole says what the data lack to be whole.
func (r reading) whole(queue bool) string {
	switch {
	case len(r.locked) != len(r.leases):
		return fmt.Sprintf("%d records, %d leases", len(r.locked), len(r.leases))
	case queue && (r.bad || r.jobs != r.jobsReady+len(r.locked) || r.jobs != len(r.jobsUnique)):
		return fmt.Sprintf("%d jobs, %d ready, %d held, %d of them different", r.jobs, r.jobsReady, len(r.locked), len(r.jobsUnique))
	case queue || !r.exists && r.unended() == 0: // the name has expired
		return ""
	case r.free != max(r.capacity-r.sum, 0):
		return fmt.Sprintf("capacity %d, %d held, %d free", r.capacity, r.sum, r.free)
	case r.held != strconv.FormatInt(r.sum, 10):
		return fmt.Sprintf("%d held, the name says %s", r.sum, r.held)
	}
	for token, record := range r.locked {
		if r.leases[token] != strconv.FormatInt(record.end, 10) {
			return fmt.Sprintf("%s: lease until %s, record until %d", token, r.leases[token], record.end)
		}
	}
	return ""
}

// unended is how many permits are protected by a lease.
func (r reading) unended() (n int64) {
	for _, record := range r.locked {
		if record.end > r.now {
			n += record.permits
		}
	}
	return n
}

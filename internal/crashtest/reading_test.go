package crashtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// reading is one atomic look at the keys of a semaphore or queue.
type reading struct {
	server   int64 // time, µs
	exists   bool
	capacity int // of a queue: the number of jobs
	free     int
	leases   int
	holders  []holder
	waiters  []string // members of the queue, in their order
	tickets  []int64
}

// holder is a record of locked.
type holder struct {
	token   string
	permits int
	end     int64 // of the lease, ms
	fence   int64
	job     int64 // of a queue: its id
	child   int
}

// sendReading asks for a reading; receive it with receiveReading.
func sendReading(conn redis.Conn, key string, queue bool) {
	k := "semaphore:{" + key + "}"
	conn.Send("MULTI")
	conn.Send("TIME")
	conn.Send("ZCARD", k+":leases")
	conn.Send("HGETALL", k+":locked")
	conn.Send("ZRANGE", k+":queue", 0, -1, "WITHSCORES")
	if queue {
		conn.Send("ZCARD", k+":available")
		conn.Send("HLEN", k+":jobs")
	} else {
		conn.Send("LLEN", k+":available")
		conn.Send("HGET", k, "capacity")
	}
	conn.Send("EXEC")
}

const readingReplies = 8 // of MULTI, the commands, and EXEC

func receiveReading(conn redis.Conn, queue bool) (r reading, err error) {
	for range readingReplies - 1 {
		if _, err = conn.Receive(); err != nil {
			return r, err
		}
	}
	reply, err := redis.Values(conn.Receive())
	if err != nil {
		return r, err
	}
	var time, locked, waiting []string
	var capacity any
	if _, err = redis.Scan(reply, &time, &r.leases, &locked, &waiting, &r.free, &capacity); err != nil {
		return r, err
	}
	seconds, err := strconv.ParseInt(time[0], 10, 64)
	micro, err2 := strconv.ParseInt(time[1], 10, 64)
	if err != nil || err2 != nil {
		return r, fmt.Errorf("TIME answers %q", time)
	}
	r.server = seconds*1e6 + micro
	if r.exists = capacity != nil; r.exists {
		if r.capacity, err = redis.Int(capacity, nil); err != nil {
			return r, err
		}
	}
	for i := 0; i < len(locked); i += 2 {
		h, err := parseHolder(locked[i], locked[i+1], queue)
		if err != nil {
			return r, err
		}
		r.holders = append(r.holders, h)
	}
	for i := 0; i < len(waiting); i += 2 {
		ticket, err := strconv.ParseFloat(waiting[i+1], 64)
		if err != nil {
			return r, err
		}
		r.waiters, r.tickets = append(r.waiters, waiting[i]), append(r.tickets, int64(ticket))
	}
	return r, nil
}

// parseHolder reads a record: permits, end, fence, since, of a queue id, deliveries,
// how and end of the job; owner.
func parseHolder(token, record string, queue bool) (h holder, err error) {
	fields := strings.Fields(record)
	n := 5
	if queue {
		n = 9
	}
	if len(fields) != n {
		return h, fmt.Errorf("the record of %s is %q", token, record)
	}
	h.token = token
	numbers := []int64{0, 0, 0, 0, 0}
	for i := range min(len(numbers), n-1) {
		if numbers[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return h, err
		}
	}
	h.permits, h.end, h.fence, h.job = int(numbers[0]), numbers[1], numbers[2], numbers[4]
	h.child = childOf(fields[n-1])
	return h, nil
}

// childOf reads the number of the process in an owner, or in a member of the queue,
// which ends with one. 0 is none.
func childOf(owner string) int {
	owner = owner[strings.LastIndexByte(owner, ' ')+1:]
	owner, _, _ = strings.Cut(owner, ".")
	child, _ := strconv.Atoi(owner)
	return child
}

// check finds what is wrong with the numbers of a reading: held and free make up the
// capacity, and each holder has a lease.
func (r reading) check() (wrong complaints) {
	held := 0
	for _, h := range r.holders {
		held += h.permits
	}
	if r.exists && held+r.free != r.capacity {
		wrong.add(nil, "at %d: %d held and %d free of %d: %+v", r.server, held, r.free, r.capacity, r.holders)
	}
	if r.leases != len(r.holders) {
		wrong.add(nil, "at %d: %d leases of %d holders", r.server, r.leases, len(r.holders))
	}
	return wrong
}

// checkEmpty finds what is left when everybody is gone: all permits of a semaphore are
// free, or it has expired; of a queue, capacity 0, there is nothing.
func (r reading) checkEmpty(capacity int) (wrong complaints) {
	free := 0
	if r.exists {
		free = capacity
	}
	if r.free != free || r.leases != 0 || len(r.holders) != 0 || len(r.waiters) != 0 {
		wrong.add(nil, "left at the end: %+v, free should be %d", r, free)
	}
	return append(wrong, r.check()...)
}

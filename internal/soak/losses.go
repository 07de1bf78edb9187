package main

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// flushAll loses all data. What was granted before is not protected any more.
func (in *injector) flushAll() {
	in.lose(func() { in.do("FLUSHALL") })
}

// failOver makes a replica that lacks the last writes the primary. It takes the
// address of the old one, which nobody reaches meanwhile.
func (in *injector) failOver() {
	defer in.must.cleanUp()
	replica := in.server.Replica(in.must, "--repl-diskless-sync-delay", "0")
	in.lose(func() {
		in.unwell(func() {
			replica.Promote(in.must)
			in.sleep(in.between(time.Millisecond, 300*time.Millisecond)) // these writes are lost
			for _, p := range in.proxies {
				p.Refuse(true)
			}
			in.server.RestartEmpty(in.must)
			in.adopt(replica.Addr)
			for _, p := range in.proxies {
				p.Refuse(false)
			}
		})
	})
}

// adopt makes the server have the data of another one.
func (in *injector) adopt(from string) {
	host, port, err := net.SplitHostPort(from)
	if err != nil {
		in.must.Fatal(err)
	}
	in.do("REPLICAOF", host, port)
	in.await("replication", "master_link_status:up")
	in.server.Promote(in.must)
	in.await("persistence", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0") // till then a restart finds no data
}

// await waits until the server says all of this of itself.
func (in *injector) await(section string, lines ...string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		info, _ := redis.String(in.do("INFO", section), nil)
		if !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(info, line) }) {
			return
		}
		if time.Now().After(deadline) {
			in.must.Fatalf("the server does not say %q: %s", lines, info)
		}
	}
}

// lose has a phase of its own for a loss of data: no other fault lasts.
func (in *injector) lose(f func()) {
	in.lasting.Wait()
	in.judge.losing()
	f()
	in.judge.lost(in.now())
}

// now is the time of the server, in µs, as fences are.
func (in *injector) now() int64 {
	now, err := redis.Int64s(in.do("TIME"), nil)
	if err != nil || len(now) != 2 {
		in.must.Fatalf("TIME: %v, %v", now, err)
	}
	return now[0]*1e6 + now[1]
}

// spared are the keys of queues that are not deleted: the jobs, who has them, and what
// tells that a Signal or a Done was there before, have no second copy.
var spared = []string{":jobs", ":locked", ":expiries", ":calls", ":released", ":version"}

// deleteKey removes one key by hand. The next step mends the semaphore.
func (in *injector) deleteKey() {
	name := append([]string{jobs, once}, names...)[in.rand.IntN(2+len(names))]
	key := "semaphore:{" + name + "}"
	keys, err := redis.Strings(in.do("KEYS", key+"*"), nil)
	if err != nil {
		in.must.Fatal(err)
	}
	if name == jobs || name == once {
		keys = slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(spared, strings.TrimPrefix(k, key)) })
	}
	if len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	key = keys[in.rand.IntN(len(keys))]
	in.said("deletes %s", key)
	in.judge.harmed(name)
	in.do("DEL", key)
	if err := in.inspect(name); err != nil { // a step: should two keys be lost at once, not all can be mended
		in.said("inspect: %v", err)
	}
}

package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// state is all that Redis has of a semaphore, less the lives of the keys. What
// a map or a list does not have is nil, so that states compare with ==, in depth.
type state struct {
	Name      map[string]string
	Version   string
	Available []string
	Locked    map[string]record
	Leases    map[string]int64 // token → end
	Queue     []place          // by ticket
	Clients   map[string]int64 // client id → alive until
	Released  []string         // the latest first
	Calls     map[string]int64 // name → when, server ms
	Inboxes   map[string][]string
	Jobs      map[string]string // of a queue: id → content
	Ready     []string          // of a queue: id, deliveries and end, the oldest first
	Expiries  map[string]int64  // of a queue
	Foreign   map[string]string // keys of a wrong type, records that can't be read, …
}

// record is what the locked hash says of a token.
type record struct {
	N, End, Fence, Since int64
	Owner                string
}

// place is an entry of the queue with its ticket.
type place struct {
	Entry  string
	Ticket int64
}

// waiter takes the entry apart. It is false if that can't be done.
func (p place) waiter() (w Waiter, process string, ok bool) {
	fields := strings.SplitN(p.Entry, " ", 5)
	if len(fields) < 5 {
		return w, "", false
	}
	lease := time.Duration(number(fields[2])) * time.Millisecond
	return Waiter{Token: fields[0], Permits: int(number(fields[1])), Lease: lease, Owner: fields[4]}, fields[3], true
}

// life says how long the keys live, and when that was read.
type life struct {
	now int64            // server ms
	ttl map[string]int64 // key → ms, -1: for ever
}

// special are the characters that KEYS does not take as they are.
var special = regexp.MustCompile(`[][*?\\^]`)

// dumpScript reads all keys that match a pattern, in one go.
var dumpScript = redis.NewScript(0, `
local readers = {string = {'GET'}, list = {'LRANGE', 0, -1}, hash = {'HGETALL'},
  set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}}
local time = redis.call('TIME')
local all = {time[1] * 1000 + math.floor(time[2] / 1000)}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  local command = readers[kind]
  local content = redis.call(command[1], key, unpack(command, 2))
  if kind == 'string' then
    content = {content}
  end
  all[#all + 1] = {key, kind, redis.call('PTTL', key), content}
end
return all`)

// read dumps the semaphore.
func (f *fixture) read() (state, life) {
	f.t.Helper()
	all, err := redis.Values(dumpScript.Do(f.conn, special.ReplaceAllString(f.Keys.Name(), `\$0`)+"*"))
	require.NoError(f.t, err)
	var s state
	l := life{ttl: make(map[string]int64)}
	l.now = all[0].(int64)
	for _, key := range all[1:] {
		var name, kind string
		var ttl int64
		var content []string
		_, err = redis.Scan(key.([]any), &name, &kind, &ttl, &content)
		require.NoError(f.t, err)
		l.ttl[name] = ttl
		s.add(f.Keys, name, kind, content)
	}
	return s, l
}

// dump is read without the lives.
func (f *fixture) dump() state {
	f.t.Helper()
	s, _ := f.read()
	return s
}

// add parses one key. What is not as it should be goes into Foreign.
func (s *state) add(keys Keys, name, kind string, content []string) {
	suffix := strings.TrimPrefix(name, keys.Name())
	switch suffix + " " + kind {
	case " hash":
		s.Name = pairs(content)
	case ":version string":
		s.Version = content[0]
	case ":available list":
		s.Available = content
	case ":locked hash":
		for token, text := range pairs(content) {
			s.addRecord(token, text)
		}
	case ":leases zset":
		s.Leases = scores(content)
	case ":queue zset":
		for entry, ticket := range scores(content) {
			s.Queue = append(s.Queue, place{entry, ticket})
		}
		slices.SortFunc(s.Queue, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Entry, b.Entry))
		})
	case ":clients zset":
		s.Clients = scores(content)
	case ":released list":
		s.Released = content
	case ":calls zset":
		s.Calls = scores(content)
	case ":jobs hash":
		s.Jobs = pairs(content)
	case ":available zset":
		for i := 0; i < len(content); i += 2 {
			s.Ready = append(s.Ready, content[i])
			if id, _, _ := strings.Cut(content[i], " "); id != content[i+1] {
				put(&s.Foreign, "ready "+content[i], content[i+1])
			}
		}
	case ":expiries zset":
		s.Expiries = scores(content)
	default:
		if process, ok := strings.CutPrefix(suffix, ":inbox:"); ok && kind == "list" {
			put(&s.Inboxes, process, content)
			return
		}
		put(&s.Foreign, suffix, kind+" "+strings.Join(content, " "))
	}
}

func (s *state) addRecord(token, text string) {
	var r record
	fields := strings.SplitN(text, " ", 5)
	ok := len(fields) == 5
	for i, number := range []*int64{&r.N, &r.End, &r.Fence, &r.Since} {
		if ok {
			var err error
			*number, err = strconv.ParseInt(fields[i], 10, 64)
			ok = err == nil
		}
	}
	if !ok {
		put(&s.Foreign, "locked "+token, text)
		return
	}
	r.Owner = fields[4]
	put(&s.Locked, token, r)
}

// scores are those of a sorted set; 0 stands for one that is no whole number.
func scores(content []string) map[string]int64 {
	numbers := make(map[string]int64)
	for member, score := range pairs(content) {
		numbers[member] = number(score)
	}
	return numbers
}

// clone is a copy that a test changes into the state that it expects.
func (s state) clone() state {
	s.Name = maps.Clone(s.Name)
	s.Available = slices.Clone(s.Available)
	s.Locked = maps.Clone(s.Locked)
	s.Leases = maps.Clone(s.Leases)
	s.Queue = slices.Clone(s.Queue)
	s.Clients = maps.Clone(s.Clients)
	s.Released = slices.Clone(s.Released)
	s.Calls = maps.Clone(s.Calls)
	s.Inboxes = maps.Clone(s.Inboxes)
	s.Foreign = maps.Clone(s.Foreign)
	return s
}

// hold adds a holder whose permits are the first of the list.
func (s *state) hold(token string, r record) {
	s.Available = s.Available[r.N:]
	if len(s.Available) == 0 {
		s.Available = nil
	}
	s.place(token, r)
}

// place adds a holder with permits that were never in the list.
func (s *state) place(token string, r record) {
	put(&s.Locked, token, r)
	put(&s.Leases, token, r.End)
	s.count(r.N)
	s.Name["seq"] = itoa(r.Fence)
}

// free removes a holder; its permits go to the end of the list.
func (s *state) free(token string) {
	r := s.Locked[token]
	s.remove(token)
	s.Available = append(s.Available, permits(r.Fence, r.N)...)
}

// remove removes a holder.
func (s *state) remove(token string) {
	s.count(-s.Locked[token].N)
	delete(s.Locked, token)
	delete(s.Leases, token)
	if len(s.Locked) == 0 {
		s.Locked, s.Leases = nil, nil
	}
}

func (s *state) count(n int64) {
	s.Name["held"] = itoa(number(s.Name["held"]) + n)
}

// permits are the names of n permits that share a number.
func permits(number, n int64) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%d:%d", number, i+1)
	}
	return names
}

func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = value
}

func pairs(list []string) map[string]string {
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// number is a number that Redis has as text, 0 if it is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

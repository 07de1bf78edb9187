package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// check fails the test unless the semaphore is whole, and its keys live long
// enough.
func (f *fixture) check() {
	f.t.Helper()
	s, l := f.read()
	require.Empty(f.t, broken(s), "state: %+v", s)
	require.Empty(f.t, shortLived(f.Keys, s, l), "state: %+v", s)
}

// broken says what a state lacks to be whole.
func broken(s state) []string {
	if s.Name == nil && s.Locked == nil && s.Leases == nil && s.Queue == nil {
		return nil // it does not exist
	}
	var flaws []string
	flaw := func(format string, args ...any) { flaws = append(flaws, fmt.Sprintf(format, args...)) }
	number := func(field string) int64 {
		n, err := strconv.ParseInt(s.Name[field], 10, 64)
		if err != nil {
			flaw("name: %s is %q", field, s.Name[field])
		}
		return n
	}
	capacity, held, seq := number("capacity"), number("held"), number("seq")
	number("ttl")
	number("fresh")
	if s.Version != "1" {
		flaw("version %q", s.Version)
	}
	if free := max(capacity-held, 0); int64(len(s.Available)) != free {
		flaw("%d permits in the list, %d free", len(s.Available), free)
	}
	var sum int64
	for token, r := range s.Locked {
		sum += r.N
		if end, ok := s.Leases[token]; !ok || end != r.End {
			flaw("%s: lease %d, record %+v", token, end, r)
		}
		if r.Fence > seq {
			flaw("%s: fence %d after %d", token, r.Fence, seq)
		}
	}
	if sum != held || len(s.Leases) != len(s.Locked) {
		flaw("%d held by the records, %d by the name; %d records, %d leases", sum, held, len(s.Locked), len(s.Leases))
	}
	names := make(map[string]bool)
	for _, name := range s.Available {
		if names[name] {
			flaw("permit %s is there twice", name)
		}
		names[name] = true
	}
	for _, p := range s.Queue {
		w, _, _ := p.waiter()
		if _, ok := s.Locked[w.Token]; ok {
			flaw("%s holds and waits", w.Token)
		}
		if p.Ticket > seq {
			flaw("%s: ticket %d after %d", w.Token, p.Ticket, seq)
		}
	}
	for key, content := range s.Foreign {
		flaw("foreign %s: %s", key, content)
	}
	return flaws
}

// shortLived names the keys that may end before a lease, or before the process
// of a waiter is taken for dead.
func shortLived(keys Keys, s state, l life) []string {
	var last int64
	for _, end := range s.Leases {
		last = max(last, end)
	}
	for _, p := range s.Queue {
		_, process, _ := p.waiter()
		last = max(last, s.Clients[process])
	}
	var flaws []string
	for key, ttl := range l.ttl {
		needed := last
		if strings.HasPrefix(key, keys.Inbox("")) { // nobody wants a grant after its end
			needed = min(last, l.now+ClaimWindow.Milliseconds())
		}
		if ttl <= 0 || l.now+ttl < needed {
			flaws = append(flaws, fmt.Sprintf("%s lives for %d ms, needed for %d", strings.TrimPrefix(key, keys.Name()), ttl, last-l.now))
		}
	}
	return flaws
}

func TestBroken_FindsWhatIsWrong(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 1)
	f.acquire("b", 2)
	f.queue("c", 1)
	f.release("a", "1")
	sound := f.dump()
	require.Empty(t, broken(sound))
	for _, spoil := range []func(*state){
		func(s *state) { s.Version = "" },
		func(s *state) { s.Name["capacity"] = "4" },
		func(s *state) { s.Name["held"] = "2" },
		func(s *state) { s.Name["seq"] = "1" },
		func(s *state) { s.Name["ttl"] = "" },
		func(s *state) { s.Available = []string{"1:1"} },
		func(s *state) { s.Name["capacity"], s.Available = "5", []string{"1:1", "1:1"} },
		func(s *state) { s.Leases["b"]++ },
		func(s *state) { delete(s.Leases, "b") },
		func(s *state) { s.Leases["x"] = 1 },
		func(s *state) { s.Queue = append(s.Queue, place{"b 2 60000 p1 o", 1}) },
		func(s *state) { s.Queue = append(s.Queue, place{"d 2 60000 p1 o", 1 << 60}) },
		func(s *state) { put(&s.Foreign, "x", "y") },
	} {
		s := sound.clone()
		spoil(&s)
		require.NotEmpty(t, broken(s), "%+v", s)
	}
}

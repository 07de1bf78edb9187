package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redsem/redsem/internal/redistest"
)

// took says whether a step took the short cut: the long way begins with the
// length of the list, which nothing else asks for.
func (f *fixture) took(step func()) (shortCut bool) {
	f.t.Helper()
	before := redistest.Commands(f.t, f.conn)["llen"]
	step()
	return redistest.Commands(f.t, f.conn)["llen"] == before
}

func TestShortCut_IsTakenWhenNobodyWaitsAndNothingIsDue(t *testing.T) {
	f := newFixture(t, 4)
	assert.False(t, f.took(func() { f.acquire("a", 1) }), "there is nothing yet")
	assert.True(t, f.took(func() { f.acquire("b", 1) }))
	assert.True(t, f.took(func() { f.acquire("c", 2) }))
	assert.True(t, f.took(func() { f.release("a", "1") }))
	assert.True(t, f.took(func() { f.acquire("d", 1) }))
	assert.True(t, f.took(func() { f.release("b", "1") }))
	assert.True(t, f.took(func() { f.release("d", "1") }))
	assert.False(t, f.took(func() { f.release("c", "1") }), "of several permits")
	assert.True(t, f.took(func() { f.acquire("e", 4) }), "nobody holds")
	assert.False(t, f.took(func() { f.queue("f", 1) }))
	assert.False(t, f.took(func() { f.release("e", "1") }), "somebody waits")
}

func TestShortCut_IsNotTakenWhenSomethingIsDue(t *testing.T) {
	for name, due := range map[string]func(f *fixture){
		"new lives":        func(f *fixture) { f.goLong() },
		"an ended lease":   func(f *fixture) { f.endLease("a") },
		"a lost version":   func(f *fixture) { f.do("DEL", f.key("version")) },
		"a lost name":      func(f *fixture) { f.do("DEL", f.key("")) },
		"lost records":     func(f *fixture) { f.do("DEL", f.key("locked")) },
		"lost leases":      func(f *fixture) { f.do("DEL", f.key("leases")) },
		"more records":     func(f *fixture) { f.do("HSET", f.key("locked"), "x", "", "y", "") },
		"fewer held":       func(f *fixture) { f.do("HSET", f.key(""), "held", 0) },
		"a fresh future":   func(f *fixture) { f.do("HSET", f.key(""), "fresh", 4_000_000_000_000) },
		"a longer lease":   func(f *fixture) { f.do("HSET", f.key(""), "ttl", 2*testLease.Milliseconds()-1) },
		"a short life":     func(f *fixture) { f.do("HSET", f.key(""), "ttl", 8) },
		"too much of all":  func(f *fixture) { f.do("HSET", f.key(""), "capacity", 1_000_001) },
		"less than a lost": func(f *fixture) { f.do("HDEL", f.key(""), "seq") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 4)
			f.acquire("a", 1)
			due(f)
			assert.False(t, f.took(func() { f.acquire("b", 1) }))
		})
	}
}

// The lives are renewed when an eighth has passed, not before.
func TestShortCut_IsTakenForAnEighthOfTheLife(t *testing.T) {
	f := newFixture(t, 4)
	f.at(1_000_000_000)
	f.acquire("a", 1)
	f.at(1_000_015_000)
	assert.True(t, f.took(func() { f.acquire("b", 1) }))
	f.at(1_000_015_001)
	assert.False(t, f.took(func() { f.acquire("c", 1) }))
	assert.Equal(t, "1000015001", f.dump().Name["fresh"])
	f.at(1_000_015_000)
	assert.False(t, f.took(func() { f.acquire("d", 1) }), "the clock went back")
}

// More permits than that can't be released by the short cut: the capacity was
// lowered.
func TestShortCut_IsNotTakenAboveTheCapacity(t *testing.T) {
	f := newFixture(t, 4)
	for _, token := range []string{"a", "b", "c"} {
		f.acquire(token, 1)
	}
	f.do("HSET", f.key(""), "capacity", 2)
	f.status("")
	assert.False(t, f.took(func() { f.release("a", "1") }))
	assert.True(t, f.took(func() { f.release("b", "1") }))
}

func TestShortCut_TheLeaseThatJustEndedIsReclaimed(t *testing.T) {
	f := newFixture(t, 4)
	f.at(1_000_000_000)
	a := f.acquire("a", 1)
	f.at(a.End - 1)
	f.acquire("b", 1)
	assert.Contains(t, f.dump().Locked, "a")
	f.at(a.End)
	f.acquire("c", 1)
	assert.NotContains(t, f.dump().Locked, "a")
}

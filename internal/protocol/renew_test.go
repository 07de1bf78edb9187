package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRenew_ExtendsALease(t *testing.T) {
	f := newFixture(t, 3)
	f.acquire("a", 2)
	f.acquire("b", 1)
	r := f.dump().Locked["a"]
	r.End -= 10_000
	f.seed("a", r)
	s := f.dump()
	h, ends := f.renew(Renewal{"a", testLease})
	end := h.Server + testLease.Milliseconds()
	assert.Equal(t, []int64{end}, ends)
	assert.Equal(t, Header{Reading: h.Reading}, h)
	r.End = end
	s.Locked["a"], s.Leases["a"] = r, end
	assert.Equal(t, s, f.dump())
}

func TestRenew_RepeatedCountsFromTheLaterRun(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.renew(Renewal{"a", testLease})
	h, ends := f.renew(Renewal{"a", testLease})
	assert.Equal(t, []int64{h.Server + testLease.Milliseconds()}, ends)
}

func TestRenew_NeverShortensALease(t *testing.T) {
	f := newFixture(t, 1)
	a := f.acquire("a", 1)
	s := f.dump()
	_, ends := f.renew(Renewal{"a", testLease / 2})
	assert.Equal(t, []int64{a.End}, ends)
	assert.Equal(t, s, f.dump())
}

func TestRenew_KeepsTheOwner(t *testing.T) {
	f := newFixture(t, 1)
	w := waiter("a", 1)
	w.Owner = "two words\nand \x00 7 8"
	f.ask(w)
	f.renew(Renewal{"a", 2 * testLease})
	assert.Equal(t, w.Owner, f.dump().Locked["a"].Owner)
}

func TestRenew_RevivesNoEndedLease(t *testing.T) {
	f := newFixture(t, 2)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.endLease("a")
	s := f.dump()
	_, ends := f.renew(Renewal{"a", testLease})
	assert.Equal(t, []int64{0}, ends)
	s.free("a") // it was reclaimed
	assert.Equal(t, s, f.dump())
}

func TestRenew_AnEndedLeaseGoesToTheNextInLine(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.queue("b", 1)
	f.as("p2").queue("c", 1)
	f.endLease("a")
	h, _ := f.renew(Renewal{"a", testLease})
	assert.Equal(t, grants(f.dump(), "b"), h.Grants)
}

func TestRenew_AnswersForManyTokensInTheirOrder(t *testing.T) {
	f := newFixture(t, 5)
	f.acquire("a", 1)
	f.acquire("b", 1)
	f.acquire("ended", 1)
	f.endLease("ended")
	h, ends := f.renew(Renewal{"unknown", testLease}, Renewal{"b", 2 * testLease}, Renewal{"ended", testLease}, Renewal{"a", 3 * testLease})
	lease := testLease.Milliseconds()
	assert.Equal(t, []int64{0, h.Server + 2*lease, 0, h.Server + 3*lease}, ends)
	s := f.dump()
	assert.Equal(t, map[string]int64{"a": ends[3], "b": ends[1]}, s.Leases)
}

func TestRenew_TheKeysOutliveALongerLease(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	_, ends := f.renew(Renewal{"a", 5 * testLease}) // check: no key ends before
	_, l := f.read()
	for key, ttl := range l.ttl {
		assert.Greater(t, l.now+ttl, ends[0], key)
	}
}

func TestRenew_OfNothingCreatesNothing(t *testing.T) {
	f := newFixture(t, 1)
	h, ends := f.renew(Renewal{"a", testLease}, Renewal{"b", testLease}, Renewal{"c", testLease})
	assert.Equal(t, []int64{0, 0, 0}, ends)
	assert.Equal(t, Header{Reading: h.Reading}, h)
	assert.Equal(t, state{}, f.dump())
}

func TestRenew_EndsWithTheMillisecondOfTheLease(t *testing.T) {
	f := newFixture(t, 2)
	f.at(1_000_000_000)
	a := f.acquire("a", 1)
	f.at(a.End - 1)
	_, ends := f.renew(Renewal{"a", time.Second})
	assert.Equal(t, []int64{a.End - 1 + 1000}, ends)
	f.at(ends[0])
	_, ends = f.renew(Renewal{"a", time.Second})
	assert.Equal(t, []int64{0}, ends)
}

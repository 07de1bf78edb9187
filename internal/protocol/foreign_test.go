package protocol

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

// prefix is the code of the error that the server answered, "" if it did not.
func prefix(err error) string {
	var reply *redisadapter.ReplyError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Prefix()
}

// usurp puts something of another type in the place of a key.
func (s scene) usurp(suffix string) {
	s.do("DEL", s.key(suffix))
	if suffix == "version" {
		s.do("RPUSH", s.key(suffix), "x")
	} else {
		s.do("SET", s.key(suffix), "x")
	}
	s.do("PEXPIRE", s.key(suffix), 2*testLease.Milliseconds())
}

func TestWrongType_FailsTheStepAndChangesNothing(t *testing.T) {
	for _, suffix := range suffixes {
		t.Run(suffix, func(t *testing.T) {
			t.Parallel()
			for state, build := range scenes {
				for step, run := range oneStep {
					t.Run(state+" "+step, func(t *testing.T) {
						s := build(newFixture(t, 0))
						held := s.heldByTruth()
						s.usurp(suffix)
						s.failsOrIgnores(suffix, run)
						s.do("DEL", s.key(suffix))
						s.neverAbove()
						s.becomesWhole(held)
					})
				}
			}
		})
	}
}

// failsOrIgnores runs a step that meets a key of a wrong type.
func (s scene) failsOrIgnores(suffix string, run func(scene) error) {
	s.t.Helper()
	before := s.dump()
	err := run(s)
	if err != nil {
		assert.Equal(s.t, "WRONGTYPE", prefix(err), err)
	}
	if err != nil || !slices.Contains([]string{"available", "clients", "released", "calls"}, suffix) {
		assert.Equal(s.t, before, s.dump())
	}
}

// The short cuts do not look at the list; and whether a release can be repeated
// matters less than the release.
func TestWrongType_StepsGoOnWithoutTheKeysThatTheyDoNotNeed(t *testing.T) {
	for _, suffix := range []string{"available", "released", "clients", "calls"} {
		t.Run(suffix, func(t *testing.T) {
			s := scenes["held"](newFixture(t, 0))
			s.usurp(suffix)
			assert.NoError(t, oneStep["acquire"](s))
			assert.NoError(t, oneStep["release"](s))
			assert.NotContains(t, s.dump().Locked, "b")
			s.do("DEL", s.key(suffix))
			free, _, _ := s.status("")
			assert.Equal(t, int64(1), free)
		})
	}
}

func TestWrongType_AnInboxDoesNotFailTheStep(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	f.as("p2").queue("b", 1)
	f.do("SET", f.Keys.Inbox("p2"), "x", "PX", 2*testLease.Milliseconds())
	_, held, _, err := f.Release(t.Context(), "a", "1")
	require.NoError(t, err)
	assert.True(t, held)
	f.do("DEL", f.Keys.Inbox("p2"))
	f.check()
	answer := f.as("p2").tend(Tending{Waiting: true, Look: []Waiter{waiter("b", 1)}})
	assert.Equal(t, grants(f.dump(), "b"), answer.Grants)
}

func TestVersion_AnotherIsRefusedByEveryStep(t *testing.T) {
	for _, version := range []string{"2", "x\r\ny"} {
		for state, build := range scenes {
			for step, run := range oneStep {
				t.Run(version+" "+state+" "+step, func(t *testing.T) {
					s := build(newFixture(t, 0))
					s.do("SET", s.key("version"), version)
					before := s.dump()
					err := run(s)
					assert.Equal(t, "REDSEMVERSION", prefix(err), err)
					assert.Equal(t, before, s.dump())
				})
			}
		}
	}
}

func TestVersion_IsNamedInTheError(t *testing.T) {
	f := newFixture(t, 1)
	f.do("SET", f.key("version"), "7")
	_, _, _, _, err := f.Status(t.Context(), "")
	assert.EqualError(t, err, "REDSEMVERSION 7")
}

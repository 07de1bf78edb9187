package protocol

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/redisadapter"
)

// oracle is a client that answers every script the same, and keeps what it was
// asked.
type oracle struct {
	redisadapter.Redis
	reply any
	err   error
	args  []string
}

func (o *oracle) Eval(_ context.Context, _ *redisadapter.Script, _, args []string) (any, error) {
	o.args = args
	return o.reply, o.err
}

// every sends each step once, of one item each.
func every(s Steps) map[string]error {
	w := waiter("a", 1)
	_, acquire := s.Acquire(context.Background(), w, true, 0, false)
	_, _, _, release := s.Release(context.Background(), "a", "1")
	_, _, renew := s.Renew(context.Background(), []Renewal{{"a", time.Second}})
	_, leave := s.Leave(context.Background(), []Waiter{w})
	_, tend := s.Tend(context.Background(), Tending{Renew: []Renewal{{"a", time.Second}}, Look: []Waiter{w}})
	_, _, _, _, status := s.Status(context.Background(), "a")
	return map[string]error{"acquire": acquire, "release": release, "renew": renew, "leave": leave, "tend": tend, "status": status}
}

func TestSteps_RefuseARepliesOfAnotherForm(t *testing.T) {
	for name, reply := range map[string]any{
		"nil":             nil,
		"no array":        "OK",
		"empty":           []any{},
		"no time":         []any{"x", int64(0), ""},
		"no grants":       []any{int64(1), int64(0)},
		"grants a number": []any{int64(1), int64(0), int64(5), int64(1), int64(2), int64(3), int64(4)},
	} {
		t.Run(name, func(t *testing.T) {
			for step, err := range every(Steps{Client: &oracle{reply: reply}, Keys: NewKeys(Semaphore, "k")}) {
				assert.ErrorContains(t, err, "unexpected reply of a script", step)
			}
		})
	}
	for name, rest := range map[string][]any{
		"nothing more":      {},
		"texts":             {"x", "x", "x", "x", "x"},
		"nested":            {[]any{}, []any{}, []any{}, []any{}, []any{}},
		"numbers":           {int64(1), int64(1), int64(1), int64(1), int64(1)},
		"too many numbers":  {int64(1), int64(1), int64(1), []any{int64(1), int64(1)}, []any{int64(1)}},
		"too few found":     {int64(1), int64(1), int64(1), []any{int64(1)}, []any{}},
		"text in the array": {int64(1), int64(1), int64(1), []any{"x"}, []any{int64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			reply := append([]any{int64(1), int64(0), ""}, rest...)
			_, err := Steps{Client: &oracle{reply: reply}, Keys: NewKeys(Semaphore, "k")}.Tend(context.Background(),
				Tending{Renew: []Renewal{{"a", time.Second}}, Look: []Waiter{waiter("a", 1)}})
			assert.ErrorContains(t, err, "unexpected reply of a script")
		})
	}
}

func TestSteps_TakeTextsOfEitherType(t *testing.T) {
	for _, text := range []any{"a 1 2\n", []byte("a 1 2\n")} {
		o := &oracle{reply: []any{int64(7), int64(1), text}}
		h, err := Steps{Client: o, Keys: NewKeys(Semaphore, "k")}.Leave(context.Background(), nil)
		require.NoError(t, err)
		assert.Equal(t, Header{Reading: h.Reading, More: true, Grants: []Grant{{"a", 1, 2}}}, h)
		assert.Equal(t, int64(7), h.Server)
	}
}

func TestSteps_PassErrorsOn(t *testing.T) {
	failure := errors.New("broken")
	for step, err := range every(Steps{Client: &oracle{err: failure}, Keys: NewKeys(Semaphore, "k")}) {
		assert.Same(t, failure, err, step)
	}
}

func TestSteps_ReadTheClockBeforeTheySend(t *testing.T) {
	o := &oracle{reply: []any{int64(1), int64(0), ""}}
	before := time.Now()
	h, err := Steps{Client: o, Keys: NewKeys(Semaphore, "k")}.Leave(context.Background(), nil)
	require.NoError(t, err)
	assert.False(t, h.Sent.Before(before))
}

func TestSteps_SayTheSameEntryInAcquireAndTend(t *testing.T) {
	f := newFixture(t, 1)
	f.acquire("a", 1)
	w := Waiter{Token: "b", Permits: 1, Lease: 1500 * time.Millisecond, Owner: "two words"}
	f.ask(w)
	assert.Equal(t, "b 1 1500 p1 two words", f.dump().Queue[0].Entry)
	assert.Equal(t, []int64{1}, f.tend(Tending{Waiting: true, Look: []Waiter{w}}).Found)
}

func TestScripts_HaveNeitherCommentsNorIncludes(t *testing.T) {
	for step, script := range allScripts() {
		for line := range strings.Lines(script.Source()) {
			require.NotEqual(t, "", strings.TrimSpace(line), step)
			require.False(t, strings.HasPrefix(strings.TrimSpace(line), "--"), "%s: %s", step, line)
		}
		assert.Contains(t, script.Source(), "redis.call('TIME')", step)
	}
}

package protocol

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// propertySteps is how many random steps the models are compared for, each.
var propertySteps = flag.Int("property.steps", 50_000, "compare the steps with their models for so many random ones, of each kind")

// crowd is a few processes that take random steps.
type crowd struct {
	*fixture
	now     int64            // server ms
	tokens  []modelWaiter    // all that there were
	tickets map[string]int64 // by token
	fence   int64            // the greatest so far
	calls   int
}

const propertyLease = 60_000 // ms

// checkProperty takes random actions on a server of its own, until there were enough
// steps. The action "" compares.
func checkProperty(t *testing.T, kind Kind, actions func(*rapid.T, *crowd) map[string]func(*rapid.T)) {
	own := redistest.Start(t)
	client := redigoadapter.New(redistest.Pool(t, own.Addr, 0))
	conn := own.Dial(t)
	steps := 0
	for steps < *propertySteps && !t.Failed() {
		rapid.Check(t, func(r *rapid.T) {
			f := &fixture{t: t, conn: conn, Steps: Steps{
				Kind: kind, Client: client, Process: "p1", Lease: testLease, Keys: NewKeys(kind, "property"),
			}}
			c := &crowd{fixture: f, now: 1_000_000_000, tickets: make(map[string]int64)}
			c.do("FLUSHALL")
			c.at(c.now)
			all := actions(r, c)
			for name, do := range all {
				if name != "" {
					all[name] = func(r *rapid.T) { steps++; do(r) }
				}
			}
			r.Repeat(all)
		})
	}
	t.Logf("%d steps", steps)
}

func (c *crowd) process(r *rapid.T) string {
	return fmt.Sprint("p", rapid.IntRange(1, 3).Draw(r, "process"))
}

// token draws one of the last, that may hold, wait, or be over.
func (c *crowd) token(r *rapid.T) modelWaiter {
	if len(c.tokens) == 0 {
		r.Skip("nobody has come")
	}
	last := c.tokens[max(len(c.tokens)-8, 0):]
	return last[rapid.IntRange(0, len(last)-1).Draw(r, "token")]
}

func waiterOf(k modelWaiter) Waiter { return waiter(k.token, k.n) }

// call draws how a call is sent: once or, as after a lost reply, more often.
func (c *crowd) call(r *rapid.T, name string) []Call {
	sent := Call{Name: name, VoidAfter: rapid.SampledFrom([]int64{0, 0, c.now + 3000, c.now + 40_000, c.now - 1}).Draw(r, "void after")}
	calls := []Call{sent}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(r, "repeats") {
		sent.Repeated = true
		calls = append(calls, sent)
	}
	if len(calls) > 1 && rapid.Bool().Draw(r, "the first comes last") {
		calls = append(calls[1:], calls[0])
	}
	return calls
}

func (c *crowd) newCall() string {
	c.calls++
	return fmt.Sprint("call", c.calls)
}

// someTime draws ms.
func someTime(r *rapid.T) int64 {
	return rapid.SampledFrom([]int64{1, 500, 3000, 30_000, 61_000, 700_000}).Draw(r, "ms")
}

// pass lets time pass.
func (c *crowd) pass(ms int64) {
	c.now += ms
	c.at(c.now)
}

// same compares what a step answered with what the model did.
func same[V any](r *rapid.T, want, got V, what string) {
	r.Helper()
	require.Equal(r, want, got, what)
}

func renewalsOf(tokens []string, lease int64) []Renewal {
	var renewals []Renewal
	for _, token := range tokens {
		renewals = append(renewals, Renewal{token, msDuration(lease)})
	}
	return renewals
}

func msDuration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
)

const someProcess = "0123456789abcdef"

func (k Keys) all() []string { return append([]string{k.Inbox(someProcess)}, k.fixed...) }

func TestKeys_AreNamedAfterTheBindingKey(t *testing.T) {
	k := NewKeys(Semaphore, "jobs")
	assert.Equal(t, []string{
		"semaphore:{jobs}",
		"semaphore:{jobs}:version",
		"semaphore:{jobs}:available",
		"semaphore:{jobs}:locked",
		"semaphore:{jobs}:leases",
		"semaphore:{jobs}:queue",
		"semaphore:{jobs}:clients",
		"semaphore:{jobs}:released",
		"semaphore:{jobs}:calls",
	}, k.fixed)
	assert.Equal(t, "semaphore:{jobs}", k.Name())
	assert.Equal(t, "semaphore:{jobs}:inbox:p1", k.Inbox("p1"))
}

func TestKeys_ShareOneSlotOfACluster(t *testing.T) {
	conn := redistest.Start(t, "--cluster-enabled", "yes").Dial(t)
	slots := make(map[int]bool)
	for _, binding := range append(bindings(3),
		"jobs", "a b", " ", "\x00", "\x00}", "ünï¢ødé", "\xff}", "{user}:1", "a{b}c", "{{}}", "}{", "%}x", "%%}", "x%}",
	) {
		first := -1
		for _, key := range NewKeys(Semaphore, binding).all() {
			slot, err := redis.Int(conn.Do("CLUSTER", "KEYSLOT", key))
			require.NoError(t, err)
			if first < 0 {
				first = slot
			}
			require.Equal(t, first, slot, "%q: %q", binding, key)
		}
		slots[first] = true
	}
	assert.Greater(t, len(slots), 20, "the tag is not the same for all")
}

func TestKeys_OfDifferentBindingKeysAreAllDifferent(t *testing.T) {
	seen := make(map[string]string)
	for _, binding := range append(bindings(6), ":version", "a}:version", "}:inbox:"+someProcess) {
		for _, key := range NewKeys(Semaphore, binding).all() {
			other, ok := seen[key]
			require.False(t, ok, "%q of %q and of %q", key, binding, other)
			seen[key] = binding
		}
	}
}

// bindings are all texts of that length at most, but not the empty one, over an
// alphabet of characters that matter in keys.
func bindings(length int) []string {
	all, longest := []string{}, []string{""}
	for range length {
		var longer []string
		for _, text := range longest {
			for _, c := range "{}%:a" {
				longer = append(longer, text+string(c))
			}
		}
		all = append(all, longer...)
		longest = longer
	}
	return all
}

// On a cluster a script must not touch keys of two slots.
func TestKeys_StepsRunOnACluster(t *testing.T) {
	client, conn := ownServer(t, "--cluster-enabled", "yes")
	_, err := conn.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := redis.String(conn.Do("CLUSTER", "INFO"))
		return err == nil && len(info) > 16 && info[:16] == "cluster_state:ok"
	}, time.Minute, 20*time.Millisecond)
	for i, binding := range []string{"jobs", "}", "%}x", "a}b", "{}", "a{b}c"} {
		f := newFixtureOn(t, 1, client, conn)
		f.Keys = NewKeys(Semaphore, binding)
		f.acquire("a", 1)
		f.as("p2").queue("b", 1)
		f.release("a", fmt.Sprint(i))
		f.as("p2").tend(Tending{Waiting: true, Look: []Waiter{waiter("b", 1)}})
		f.leave(waiter("b", 1))
	}
}

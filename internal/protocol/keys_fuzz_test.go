package protocol

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hashed is what of a key decides about its slot, by the rules of Redis Cluster.
func hashed(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if ok && closed && tag != "" {
		return tag
	}
	return key
}

// Whatever the binding key, all keys lie in one slot; two have no key in common.
func FuzzBindingKeys(f *testing.F) {
	for _, pair := range [][2]string{
		{"deploy", "deploy}"}, {"}", "%}"}, {"%}", "%%}"}, {"{", "{{"}, {"a}:version", "a"}, {"\x00", "\xff"}, {"x", "}"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		if one == "" || other == "" {
			t.Skip("no binding key")
		}
		for _, kind := range []Kind{Semaphore, Queue} {
			keys := NewKeys(kind, one).all()
			for _, key := range keys {
				require.Equal(t, hashed(keys[0]), hashed(key))
				if one != other {
					require.NotContains(t, NewKeys(kind, other).all(), key)
				}
			}
			slices.Sort(keys)
			require.Len(t, slices.Compact(keys), len(NewKeys(kind, one).all()))
		}
	})
}

package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/examples/internal/exampleredis"
	"github.com/redsem/redsem/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A holder that writes after its lease has ended, and after the next one has written,
// is refused.
func TestBeyond4_StoreRefusesAnOlderFence(t *testing.T) {
	exampletest.OnEach(t, func(t *testing.T, url string) {
		output := exampletest.Output(t, url, run)
		fences := regexp.MustCompile(`with fence (\d+)`).FindAllStringSubmatch(output, -1)
		require.Len(t, fences, 2)
		old, err := strconv.ParseInt(fences[0][1], 10, 64)
		require.NoError(t, err)
		young, err := strconv.ParseInt(fences[1][1], 10, 64)
		require.NoError(t, err)
		require.Greater(t, young, old)
		require.Contains(t, output, "refused")
		require.Contains(t, output, `store  holds "text of birch"`)
	})
}

// The store takes a fence that is newer or the same, at its bounds too.
func TestStoreComparesFences(t *testing.T) {
	server := miniredis.RunT(t)
	pool := exampleredis.NewPool("redis://" + server.Addr())
	defer pool.Close()
	store := &Store{pool: pool, key: "store"}
	const largest = 1<<53 - 1
	for _, step := range []struct {
		fence   int64
		refused bool
	}{{5, false}, {5, false}, {4, true}, {6, false}, {largest - 1, false}, {largest, false}, {largest - 1, true}} {
		before, _ := store.Read(t.Context())
		value := "by " + strconv.FormatInt(step.fence, 10)
		err := store.Write(t.Context(), step.fence, value)
		after, readErr := store.Read(t.Context())
		require.NoError(t, readErr)
		if step.refused {
			require.ErrorIs(t, err, ErrOldFence)
			require.Equal(t, before, after, "a refused write changed the store")
		} else {
			require.NoError(t, err)
			require.Equal(t, value, after)
		}
	}
}

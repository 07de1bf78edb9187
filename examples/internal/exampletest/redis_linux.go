package exampletest

import (
	"os/exec"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
)

func onRedis(t *testing.T, test func(t *testing.T, url string)) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("there is no redis-server")
	}
	server := redistest.Start(t)
	look := server.Dial(t)
	_, err := look.Do("SET", "theirs", "untouched")
	require.NoError(t, err)

	test(t, "redis://"+server.Addr)

	keys, err := redis.Strings(look.Do("KEYS", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{"theirs"}, keys, "the example left something behind")
}

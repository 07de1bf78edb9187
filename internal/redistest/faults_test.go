package redistest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func set(t *testing.T, s *redistest.Server, value string) {
	t.Helper()
	_, err := s.Dial(t).Do("SET", "k", value)
	require.NoError(t, err)
}

func get(t *testing.T, s *redistest.Server) string {
	t.Helper()
	value, err := redis.String(s.Dial(t).Do("GET", "k"))
	if errors.Is(err, redis.ErrNil) {
		return ""
	}
	require.NoError(t, err)
	return value
}

func TestPausedServerAnswersNothingUntilItGoesOn(t *testing.T) {
	s := redistest.Start(t)
	conn := s.Dial(t)
	s.Pause(t)
	answered := make(chan error, 1)
	go func() { // ends with the pause
		_, err := conn.Do("PING")
		answered <- err
	}()
	select {
	case <-answered:
		t.Fatal("it answers")
	case <-time.After(100 * time.Millisecond):
	}
	s.Resume(t)
	require.NoError(t, <-answered)
}

func TestCloseEndsAPausedServer(t *testing.T) {
	s, err := redistest.New()
	require.NoError(t, err)
	dir := filepath.Dir(s.Path("log"))
	s.Pause(t)
	s.Close()
	_, err = redis.Dial("tcp", s.Addr)
	require.Error(t, err)
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRestartKeepsTheData(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	set(t, s, "v")
	s.Kill()
	s.Restart(t)
	require.Equal(t, "v", get(t, s))
}

func TestRestartEmptyLosesTheData(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	set(t, s, "v")
	addr := s.Addr
	s.RestartEmpty(t)
	require.Equal(t, addr, s.Addr)
	require.Empty(t, get(t, s))
	s.Kill()
	s.RestartEmpty(t) // of one that does not run
	require.Empty(t, get(t, s))
}

func TestReplicaFollowsUntilItIsPromoted(t *testing.T) {
	s := redistest.Start(t)
	set(t, s, "before")
	r := s.Replica(t)
	require.Equal(t, "before", get(t, r))
	set(t, s, "after")
	s.AwaitReplica(t, r)
	require.Equal(t, "after", get(t, r))
	_, err := r.Dial(t).Do("SET", "k", "v")
	require.ErrorContains(t, err, "READONLY")

	r.Promote(t)
	set(t, s, "of the primary")
	require.Equal(t, "after", get(t, r))
	set(t, r, "of its own")
	require.Equal(t, "of the primary", get(t, s))
}

func TestFullServerRefusesWritesUntilItIsFullNoMore(t *testing.T) {
	s := redistest.Start(t)
	set(t, s, "v")
	s.Full(t, true)
	_, err := s.Dial(t).Do("SET", "k", "w")
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, "v", get(t, s))
	s.Full(t, false)
	set(t, s, "w")
	s.SetMaxMemory(t, 1<<30)
	set(t, s, "x")
}

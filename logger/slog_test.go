package logger_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/logger"
)

// newSlog makes a slog logger that keeps what is logged. lines reads it, without
// times.
func newSlog(t *testing.T, level slog.Leveler) (log *slog.Logger, lines func() []map[string]any) {
	var out bytes.Buffer
	log = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))
	return log, func() (all []map[string]any) {
		for line := range bytes.Lines(out.Bytes()) {
			var fields map[string]any
			require.NoError(t, json.Unmarshal(line, &fields))
			delete(fields, slog.TimeKey)
			all = append(all, fields)
		}
		return all
	}
}

func TestSlogKeepsLevels(t *testing.T) {
	target, lines := newSlog(t, slog.LevelDebug)
	log := logger.NewSlog(target, logger.Debug, "k")
	for _, level := range levels {
		log.Log(level, "message")
	}
	require.Equal(t, []map[string]any{
		{"level": "ERROR", "msg": "message", "key": "k"},
		{"level": "INFO", "msg": "message", "key": "k"},
		{"level": "DEBUG", "msg": "message", "key": "k"},
	}, lines())
}

func TestSlogDropsWhatIsAboveItsLevel(t *testing.T) {
	target, lines := newSlog(t, slog.LevelDebug)
	log := logger.NewSlog(target, logger.Info, "k")
	for _, level := range levels {
		require.Equal(t, level <= logger.Info, log.(logger.Enabler).Enabled(level))
		log.Log(level, level.String())
	}
	require.Len(t, lines(), 2)
}

func TestSlogDropsWhatTheTargetDrops(t *testing.T) {
	target, lines := newSlog(t, slog.LevelWarn)
	log := logger.NewSlog(target, logger.Debug, "k")
	for _, level := range levels {
		require.Equal(t, level == logger.Error, log.(logger.Enabler).Enabled(level))
		log.Log(level, level.String())
	}
	require.Len(t, lines(), 1)
}

func TestSlogFollowsTheTargetsLevel(t *testing.T) {
	var level slog.LevelVar
	level.Set(slog.LevelError)
	target, lines := newSlog(t, &level)
	log := logger.NewSlog(target, logger.Debug, "k")
	level.Set(slog.LevelInfo)
	log.Log(logger.Info, "message")
	require.Len(t, lines(), 1)
}

func TestSlogWritesFieldsWithTheKey(t *testing.T) {
	target, lines := newSlog(t, slog.LevelDebug)
	log := logger.NewSlog(target, logger.Debug, "binding key")
	log.Log(logger.Info, "message", "a", "one", "b", true)
	require.Equal(t, []map[string]any{
		{"level": "INFO", "msg": "message", "key": "binding key", "a": "one", "b": true},
	}, lines())
}

func TestSlogTakesOddFields(t *testing.T) {
	target, lines := newSlog(t, slog.LevelDebug)
	log := logger.NewSlog(target, logger.Debug, "k")
	log.Log(logger.Info, "message", "a", "one", "alone")
	require.Equal(t, []map[string]any{
		{"level": "INFO", "msg": "message", "key": "k", "a": "one", "!BADKEY": "alone"},
	}, lines())
}

func TestSlogLeavesTheTargetAlone(t *testing.T) {
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	target, lines := newSlog(t, &level)
	log := logger.NewSlog(target, logger.Debug, "k")
	log.Log(logger.Debug, "message", "a", 1)
	require.Equal(t, slog.LevelWarn, level.Level())
	target.Warn("the caller's own")
	require.Equal(t, []map[string]any{{"level": "WARN", "msg": "the caller's own"}}, lines())
}

func TestSlogWithoutTargetIsSilent(t *testing.T) {
	requireSilent(t, logger.NewSlog(nil, logger.Debug, "k"))
}

func TestSlogIsFreeBelowItsLevel(t *testing.T) {
	target, _ := newSlog(t, slog.LevelDebug)
	requireFree(t, logger.NewSlog(target, logger.Error, "k"), logger.Info)
}

func TestSlogIsSafeForConcurrentUse(t *testing.T) {
	target, lines := newSlog(t, slog.LevelDebug)
	log := logger.NewSlog(target, logger.Debug, "k")
	var ended sync.WaitGroup
	for range 50 {
		ended.Go(func() { log.Log(logger.Info, "message", "a", 1) })
	}
	ended.Wait()
	require.Len(t, lines(), 50)
}

package logger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/logger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var levels = []logger.Level{logger.Error, logger.Info, logger.Debug}

// requireSilent sees that a Logger takes everything, does nothing with it and
// says so beforehand.
func requireSilent(t *testing.T, log logger.Logger) {
	t.Helper()
	require.NotNil(t, log)
	for _, level := range levels {
		require.False(t, log.(logger.Enabler).Enabled(level))
		require.NotPanics(t, func() { log.Log(level, "message", "name", "value", "odd") })
	}
}

// requireFree sees that messages of a dropped level cost no memory.
func requireFree(t *testing.T, log logger.Logger, level logger.Level) {
	t.Helper()
	require.Zero(t, testing.AllocsPerRun(100, func() { log.Log(level, "message") }))
	require.Zero(t, testing.AllocsPerRun(100, func() { log.(logger.Enabler).Enabled(level) }))
}

func TestLevelsGrowWithChattiness(t *testing.T) {
	require.EqualValues(t, 0, logger.Error)
	require.EqualValues(t, 1, logger.Info)
	require.EqualValues(t, 2, logger.Debug)
}

func TestLevelsHaveNames(t *testing.T) {
	for level, name := range map[logger.Level]string{
		logger.Error: "error",
		logger.Info:  "info",
		logger.Debug: "debug",
		-1:           "unknown",
		3:            "unknown",
	} {
		require.Equal(t, name, level.String())
	}
}

func TestFuncGetsWhatIsLogged(t *testing.T) {
	calls := 0
	var log logger.Logger = logger.Func(func(level logger.Level, message string, fields ...any) {
		calls++
		require.Equal(t, logger.Info, level)
		require.Equal(t, "message", message)
		require.Equal(t, []any{"a", 1, "b", "two"}, fields)
	})
	log.Log(logger.Info, "message", "a", 1, "b", "two")
	require.Equal(t, 1, calls)
}

func TestNopIsSilent(t *testing.T) { requireSilent(t, logger.Nop()) }

func TestNopIsFree(t *testing.T) { requireFree(t, logger.Nop(), logger.Error) }

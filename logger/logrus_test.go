package logger_test

import (
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/logger"
)

// newLogrus makes a logrus logger that keeps what is logged.
func newLogrus(level logrus.Level) (*logrus.Logger, *test.Hook) {
	log, hook := test.NewNullLogger()
	log.SetLevel(level)
	return log, hook
}

// messages are those of the entries that a logrus logger was given.
func messages(hook *test.Hook) (texts []string) {
	for _, entry := range hook.AllEntries() {
		texts = append(texts, entry.Message)
	}
	return texts
}

func TestLogrusKeepsLevels(t *testing.T) {
	target, hook := newLogrus(logrus.TraceLevel)
	log := logger.NewLogrus(target, logger.Debug, "k")
	for level, want := range map[logger.Level]logrus.Level{
		logger.Error: logrus.ErrorLevel,
		logger.Info:  logrus.InfoLevel,
		logger.Debug: logrus.DebugLevel,
	} {
		log.Log(level, "message")
		require.Equal(t, want, hook.LastEntry().Level)
		require.Equal(t, "message", hook.LastEntry().Message)
	}
}

func TestLogrusDropsWhatIsAboveItsLevel(t *testing.T) {
	target, hook := newLogrus(logrus.TraceLevel)
	log := logger.NewLogrus(target, logger.Info, "k")
	for _, level := range levels {
		require.Equal(t, level <= logger.Info, log.(logger.Enabler).Enabled(level))
		log.Log(level, level.String())
	}
	require.Equal(t, []string{"error", "info"}, messages(hook))
}

func TestLogrusDropsWhatTheTargetDrops(t *testing.T) {
	target, hook := newLogrus(logrus.WarnLevel)
	log := logger.NewLogrus(target, logger.Debug, "k")
	for _, level := range levels {
		require.Equal(t, level == logger.Error, log.(logger.Enabler).Enabled(level))
		log.Log(level, level.String())
	}
	require.Equal(t, []string{"error"}, messages(hook))
}

func TestLogrusFollowsTheTargetsLevel(t *testing.T) {
	target, hook := newLogrus(logrus.ErrorLevel)
	log := logger.NewLogrus(target, logger.Debug, "k")
	target.SetLevel(logrus.InfoLevel)
	log.Log(logger.Info, "message")
	require.Equal(t, []string{"message"}, messages(hook))
}

func TestLogrusWritesFieldsWithTheKey(t *testing.T) {
	target, hook := newLogrus(logrus.TraceLevel)
	log := logger.NewLogrus(target, logger.Debug, "binding key")
	log.Log(logger.Info, "message", "a", 1, "b", "two")
	require.Equal(t, logrus.Fields{"key": "binding key", "a": 1, "b": "two"}, hook.LastEntry().Data)
	log.Log(logger.Info, "message")
	require.Equal(t, logrus.Fields{"key": "binding key"}, hook.LastEntry().Data)
}

func TestLogrusTakesOddFields(t *testing.T) {
	target, hook := newLogrus(logrus.TraceLevel)
	log := logger.NewLogrus(target, logger.Debug, "k")
	log.Log(logger.Info, "message", "a", 1, "alone")
	require.Equal(t, logrus.Fields{"key": "k", "a": 1, "extra": "alone"}, hook.LastEntry().Data)
	log.Log(logger.Info, "message", 17, nil) // a name that is no string
	require.Equal(t, logrus.Fields{"key": "k", "17": nil}, hook.LastEntry().Data)
}

func TestLogrusLeavesTheTargetAlone(t *testing.T) {
	target, hook := newLogrus(logrus.WarnLevel)
	formatter, out := target.Formatter, target.Out
	log := logger.NewLogrus(target, logger.Debug, "k")
	log.Log(logger.Debug, "message", "a", 1)
	log.Log(logger.Error, "message", "a", 1)
	require.Equal(t, logrus.WarnLevel, target.GetLevel())
	require.True(t, formatter == target.Formatter && out == target.Out)
	target.Warn("the caller's own")
	require.Empty(t, hook.LastEntry().Data)
}

func TestLogrusWithoutTargetIsSilent(t *testing.T) {
	requireSilent(t, logger.NewLogrus(nil, logger.Debug, "k"))
}

func TestLogrusIsFreeBelowItsLevel(t *testing.T) {
	target, _ := newLogrus(logrus.TraceLevel)
	requireFree(t, logger.NewLogrus(target, logger.Error, "k"), logger.Info)
}

func TestLogrusIsSafeForConcurrentUse(t *testing.T) {
	target, hook := newLogrus(logrus.TraceLevel)
	log := logger.NewLogrus(target, logger.Debug, "k")
	var ended sync.WaitGroup
	for range 50 {
		ended.Go(func() { log.Log(logger.Info, "message", "a", 1) })
	}
	ended.Wait()
	require.Len(t, hook.AllEntries(), 50)
}

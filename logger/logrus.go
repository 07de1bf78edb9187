package logger

import (
	"fmt"

	"github.com/sirupsen/logrus"
)

// NewLogrus makes a Logger that writes messages up to the given level to log, with
// the binding key as field "key". The logger itself is not changed, and its own
// level applies as well. A nil log gives a silent Logger.
func NewLogrus(log *logrus.Logger, level Level, bindingKey string) Logger {
	if log == nil {
		return Nop()
	}
	return &logrusLogger{entry: log.WithField("key", bindingKey), level: level}
}

type logrusLogger struct {
	entry *logrus.Entry
	level Level
}

func (l *logrusLogger) Enabled(level Level) bool {
	return level <= l.level && l.entry.Logger.IsLevelEnabled(logrusLevel(level))
}

func (l *logrusLogger) Log(level Level, message string, fields ...any) {
	if !l.Enabled(level) {
		return
	}
	named := make(logrus.Fields, len(fields)/2+1)
	for i := 0; i < len(fields); i += 2 {
		if i+1 == len(fields) {
			named["extra"] = fields[i]
			break
		}
		named[fmt.Sprint(fields[i])] = fields[i+1]
	}
	l.entry.WithFields(named).Log(logrusLevel(level), message)
}

func logrusLevel(level Level) logrus.Level {
	switch level {
	case Error:
		return logrus.ErrorLevel
	case Info:
		return logrus.InfoLevel
	default:
		return logrus.DebugLevel
	}
}

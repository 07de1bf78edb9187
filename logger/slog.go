package logger

import (
	"context"
	"log/slog"
)

// NewSlog makes a Logger that writes messages up to the given level to log, with
// the binding key as attribute "key". The logger itself is not changed, and its
// handler's own level applies as well. A nil log gives a silent Logger.
func NewSlog(log *slog.Logger, level Level, bindingKey string) Logger {
	if log == nil {
		return Nop()
	}
	return &slogLogger{log: log.With("key", bindingKey), level: level}
}

type slogLogger struct {
	log   *slog.Logger
	level Level
}

func (l *slogLogger) Enabled(level Level) bool {
	return level <= l.level && l.log.Enabled(context.Background(), slogLevel(level))
}

func (l *slogLogger) Log(level Level, message string, fields ...any) {
	if level <= l.level {
		l.log.Log(context.Background(), slogLevel(level), message, fields...)
	}
}

func slogLevel(level Level) slog.Level {
	switch level {
	case Error:
		return slog.LevelError
	case Info:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

package semaphore

import (
	"reflect"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
)

// logging is the caller's logger for each level, nil where it is silent, so that
// a message nobody wants is not even made.
type logging [3]logger.Logger

func newLogging(l logger.Logger) logging {
	var levels logging
	if isNil(l) {
		return levels
	}
	filter, _ := l.(logger.Enabler)
	for level := range levels {
		if filter == nil || filter.Enabled(logger.Level(level)) {
			levels[level] = l
		}
	}
	return levels
}

// at gives the logger for a level, or nil. Use:
//
//	if log := l.at(logger.Debug); log != nil {
//		log.Log(logger.Debug, …)
//	}
func (l *logging) at(level logger.Level) logger.Logger { return l[level] }

// words are what the log calls the outcomes of a semaphore, or of a queue.
type words struct{ got, notGot, gave, notGave string }

var wordsOf = [...]words{
	protocol.Semaphore: {"locked", "not locked", "unlocked", "not unlocked"},
	protocol.Queue:     {"job received", "no job received", "job given back", "job not given back"},
}

func (e *engine) words() words { return wordsOf[e.base.Kind] }

// isNil says that an interface holds nothing, or a nil of some type.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.Interface:
		return r.IsNil()
	}
	return false
}

package semaphore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/logger"
)

func TestNilLoggerCostsNoAllocation(t *testing.T) {
	var typed *nothing
	for _, l := range []logger.Logger{nil, typed, logger.Nop()} {
		levels := newLogging(l)
		token := t.Name()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if log := levels.at(logger.Info); log != nil {
				log.Log(logger.Info, "locked", "token", token, "fence", int64(len(token)))
			}
		}))
	}
}

type nothing struct{}

func (*nothing) Log(logger.Level, string, ...any) {}

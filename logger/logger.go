// Package logger defines what redsem tells about its work, and to whom: the
// one-method Logger, with adapters for log/slog and logrus.
package logger

// Level says how important a message is; the higher, the chattier.
type Level int

const (
	// Error is trouble that does not end a call, which the caller would not
	// learn of otherwise: a lost connection, a lost lease, a setting that
	// does not apply.
	Error Level = 0

	// Info is the outcome of calls: locked, unlocked, timed out.
	Info Level = 1

	// Debug is each step on the way.
	Debug Level = 2
)

// String is the level's name in lower case.
func (l Level) String() string {
	switch l {
	case Error:
		return "error"
	case Info:
		return "info"
	case Debug:
		return "debug"
	}
	return "unknown"
}

// Logger takes messages. It may be called by many goroutines at once, and should
// return soon. fields are pairs of a name (a string) and a value. Wherever redsem
// takes a Logger, nil is a silent one and costs nothing.
type Logger interface {
	Log(level Level, message string, fields ...any)
}

// Enabler may be implemented by a Logger to say beforehand which levels it drops:
// messages of these are not even made.
type Enabler interface {
	Enabled(level Level) bool
}

// Func makes a Logger of a function.
type Func func(level Level, message string, fields ...any)

// Log calls f.
func (f Func) Log(level Level, message string, fields ...any) { f(level, message, fields...) }

// Nop is a silent Logger.
func Nop() Logger { return nop{} }

type nop struct{}

func (nop) Log(Level, string, ...any) {}
func (nop) Enabled(Level) bool        { return false }

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/redisadapter"
)

// The errors of redsem, to be matched with errors.Is. What a call returns wraps
// one of them with the operation, the binding key and the cause.
var (
	// ErrTimeout: the time to wait ended before a permit was granted. If a
	// context ended the wait, its error matches too.
	ErrTimeout = errors.New("timed out waiting")

	// ErrCanceled: the wait was cancelled by the caller's context, whose error
	// matches too.
	ErrCanceled = errors.New("wait canceled")

	// ErrNotAvailable: a try found no permit free (of a queue: no job ready), or
	// others waiting.
	ErrNotAvailable = errors.New("none available")

	// ErrExceedsCapacity: more permits are asked for than there are.
	ErrExceedsCapacity = errors.New("more permits than the capacity")

	// ErrNotHeld: the token holds no permit (of a queue: no job): its lease has
	// ended, it was given back before, or it never was one.
	ErrNotHeld = errors.New("not held")

	// ErrLost: a permit or a job was lost while it was in use: its lease ended
	// before it was renewed, or Redis lost it.
	ErrLost = errors.New("lost")

	// ErrInvalidSettings: a setting is out of its bounds.
	ErrInvalidSettings = errors.New("invalid settings")

	// ErrInvalidArgument: an argument is missing or out of its bounds.
	ErrInvalidArgument = errors.New("invalid argument")

	// ErrWrongKind: the key is that of a queue, and was used as a semaphore, or
	// the other way round.
	ErrWrongKind = errors.New("key of another kind")

	// ErrVersion: the semaphore in Redis was made by an incompatible version
	// of redsem.
	ErrVersion = errors.New("incompatible protocol version")

	// ErrWrongType: a Redis key of the semaphore holds something that is not
	// redsem's.
	ErrWrongType = errors.New("key of another type in the way")

	// ErrRedis: Redis could not be reached, or refused a command. The cause
	// says why.
	ErrRedis = errors.New("redis failed")
)

// Error is the type of all errors that calls of a Semaphore or a Queue return.
type Error struct {
	Op    string // what was asked for, such as "lock"
	Key   string // the binding key
	Err   error  // one of the sentinels of this package
	Cause error  // what lies behind, or nil
}

// Error says what failed, on which key, and why.
func (e *Error) Error() string {
	text := fmt.Sprintf("redsem: %s %q: %v", e.Op, e.Key, e.Err)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap gives errors.Is and errors.As the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// redisError names the sentinel of an error that a client returned.
func redisError(op, key string, err error) *Error {
	switch {
	case replyHas(err, "REDSEMVERSION"):
		var reply *redisadapter.ReplyError
		errors.As(err, &reply)
		switch version := versionOf(reply.Message); version {
		case protocol.Semaphore.Format():
			return &Error{op, key, ErrWrongKind, errors.New("it is a semaphore, not a queue")}
		case protocol.Queue.Format():
			return &Error{op, key, ErrWrongKind, errors.New("it is a queue, not a semaphore")}
		default:
			return &Error{op, key, ErrVersion, fmt.Errorf("version %q in Redis, %q here", version, protocol.Version)}
		}
	case replyHas(err, "WRONGTYPE"):
		return &Error{op, key, ErrWrongType, err}
	}
	return &Error{op, key, ErrRedis, err}
}

// versionOf finds the version in "… REDSEMVERSION 2 …".
func versionOf(message string) string {
	_, rest, _ := strings.Cut(message, "REDSEMVERSION ")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

// replyHas says that the server answered an error with one of these codes. Up
// to Redis 6 the code of a command that failed inside a script is not the first
// word of the message.
func replyHas(err error, codes ...string) bool {
	var reply *redisadapter.ReplyError
	if !errors.As(err, &reply) {
		return false
	}
	for _, code := range codes {
		if reply.Prefix() == code || strings.Contains(reply.Message, " "+code+" ") {
			return true
		}
	}
	return false
}

// permanent says that it makes no sense to try again: the server was reached,
// and what it refused it will refuse until somebody mends it. Whatever else a
// server answers may pass: that it loads its data, follows another one, has too
// many clients or too little memory.
func permanent(err error) bool {
	return replyHas(err, "WRONGTYPE", "REDSEMVERSION", "NOPERM", "NOAUTH", "WRONGPASS") || replyHas(err, "ERR") &&
		(strings.Contains(err.Error(), "unknown command") || strings.Contains(err.Error(), "compiling script") ||
			strings.Contains(err.Error(), "The user executing the script")) // has not the right
}

// contextError is the error of a wait that ctx has ended.
func contextError(ctx context.Context, op, key string) *Error {
	cause := ctx.Err()
	if why := context.Cause(ctx); why != nil && !errors.Is(why, cause) {
		cause = fmt.Errorf("%w: %w", cause, why)
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return &Error{op, key, ErrTimeout, cause}
	}
	return &Error{op, key, ErrCanceled, cause}
}

func invalidArgument(op, key, what string) *Error {
	return &Error{op, key, ErrInvalidArgument, errors.New(what)}
}

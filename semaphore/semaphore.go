package semaphore

import (
	"context"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter"
)

// Semaphore is a handle on a counting semaphore in Redis; with a capacity of 1 it
// is a mutex. Handles on one key, in one process or many, are handles on one
// semaphore. A Semaphore may be used by many goroutines at once, and has nothing
// to close.
type Semaphore struct {
	*engine
}

// New makes a handle on the semaphore with the given binding key, which may be
// any string but the empty one. It does no I/O: the semaphore comes into being
// when it is first used. A nil logger is silent. Settings may be left out, as
// may each of their fields; there can be only one.
//
// Errors: ErrInvalidArgument for the key or the client, ErrInvalidSettings.
func New(bindingKey string, client redisadapter.Redis, log logger.Logger, settings ...Settings) (*Semaphore, error) {
	set, err := oneOf(settings)
	if err != nil {
		err = &Error{"new", bindingKey, ErrInvalidSettings, err}
	}
	e, err := newEngine(protocol.Semaphore, bindingKey, client, log, set, err)
	if err != nil {
		return nil, err
	}
	return &Semaphore{e}, nil
}

// Key is the binding key.
func (s *Semaphore) Key() string { return s.key }

// Settings are those of this handle, with the defaults filled in.
func (s *Semaphore) Settings() Settings { return s.settings }

// Lock waits for a permit and returns its token, with which any process can
// Unlock it. It is good for Expiration, even if this process ends; that counts
// from its grant in Redis, before the answer came. Lock waits for LockAttempts times
// TryLockTimeout at most.
//
// Errors: ErrTimeout; ErrRedis, ErrVersion, ErrWrongType. With an error there is no
// token, and nothing is held.
func (s *Semaphore) Lock() (string, error) {
	return s.lock(context.Background(), "lock", s.settings.TryLockTimeout)
}

// LockWithCustomTimeout is Lock with another timeout for each attempt, from 1
// second to Expiration; else the error is ErrInvalidSettings.
func (s *Semaphore) LockWithCustomTimeout(timeout time.Duration) (string, error) {
	if err := s.settings.validateTimeout("timeout", timeout); err != nil {
		return "", &Error{"lock", s.key, ErrInvalidSettings, err}
	}
	return s.lock(context.Background(), "lock", timeout)
}

// LockContext is Lock that waits as long as ctx lets it. When ctx ends the error is
// ErrTimeout (its deadline) or ErrCanceled, and matches ctx.Err() as well.
func (s *Semaphore) LockContext(ctx context.Context) (string, error) {
	return s.lock(ctx, "lock", 0)
}

// TryLock is Lock that does not wait: ErrNotAvailable if no permit is free, or if
// others are waiting.
func (s *Semaphore) TryLock() (string, error) {
	g, err := s.obtain(context.Background(), request{op: "try lock", permits: 1, full: true, try: true})
	return g.token, err
}

func (s *Semaphore) lock(ctx context.Context, op string, timeout time.Duration) (string, error) {
	g, err := s.obtain(ctx, request{op: op, permits: 1, full: true, timeout: timeout})
	return g.token, err
}

// Unlock gives the permit of a token back; the next in line has it at once.
//
// Errors: ErrNotHeld if the lease of the token has ended, if it was unlocked
// before, or if it is none: nothing is changed then. ErrRedis if Redis could not
// be asked, for about ten seconds; the permit comes back at the end of its lease
// then.
func (s *Semaphore) Unlock(token string) error {
	_, err := s.release(context.Background(), giving{op: "unlock", token: token, patience: givePatience})
	return err
}

// Refresh extends the lease of a token: it ends in Expiration from now, unless
// it would have ended later. ErrNotHeld if the token holds nothing any more: an
// ended lease can't be revived.
func (s *Semaphore) Refresh(token string) error {
	_, err := s.refresh(context.Background(), "refresh", token)
	return err
}

// IsResourceLocked says whether a token holds a permit.
func (s *Semaphore) IsResourceLocked(token string) (bool, error) {
	if token == "" {
		return false, s.emptyToken("is locked")
	}
	_, held, err := s.status(context.Background(), "is locked", token)
	return held, err
}

// GetNumAvailableResources answers how many permits are free; the capacity if
// the semaphore does not exist.
func (s *Semaphore) GetNumAvailableResources() (int, error) {
	free, _, err := s.status(context.Background(), "available", "")
	return free, err
}

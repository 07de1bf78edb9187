package semaphore

import (
	"context"
	"sync/atomic"
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
	key      string
	settings Settings
	log      logging
	base     protocol.Steps // without a client id
	spare    *hub           // the hub of this handle, unless another is live for its key
	warned   atomic.Bool
}

// New makes a handle on the semaphore with the given binding key, which may be
// any string but the empty one. It does no I/O: the semaphore comes into being
// when it is first used. A nil logger is silent. Settings may be left out, as
// may each of their fields; there can be only one.
//
// Errors: ErrInvalidArgument for the key or the client, ErrInvalidSettings.
func New(bindingKey string, client redisadapter.Redis, log logger.Logger, settings ...Settings) (*Semaphore, error) {
	if bindingKey == "" {
		return nil, invalidArgument("new", bindingKey, "the binding key is empty, must be at least one byte")
	}
	if isNil(client) {
		return nil, invalidArgument("new", bindingKey, "the client is nil, must be a redisadapter.Redis")
	}
	set, err := oneOf(settings)
	if err != nil {
		return nil, &Error{"new", bindingKey, ErrInvalidSettings, err}
	}
	s := &Semaphore{key: bindingKey, settings: set, log: newLogging(log)}
	s.base = protocol.Steps{
		Client:   client,
		Keys:     protocol.NewKeys(bindingKey),
		Capacity: set.MaxParallelResources,
		Lease:    set.Expiration,
	}
	s.spare = newHub(newHubKey(bindingKey, client, s), s.base, s.log)
	return s, nil
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
	_, err := s.release(context.Background(), "unlock", token, time.Time{})
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
	_, held, err := s.status("is locked", token)
	return held, err
}

// GetNumAvailableResources answers how many permits are free; the capacity if
// the semaphore does not exist.
func (s *Semaphore) GetNumAvailableResources() (int, error) {
	free, _, err := s.status("available", "")
	return free, err
}

func (s *Semaphore) status(op, token string) (free int, held bool, err error) {
	h := live.enter(s.spare)
	defer live.exit(h)
	steps := s.steps(h)
	var header protocol.Header
	var available, capacity int64
	err = h.send(context.Background(), askPatience, func(ctx context.Context) (err error) {
		header, available, capacity, held, err = steps.Status(ctx, token)
		return err
	})
	if err != nil {
		return 0, false, s.fail(op, err)
	}
	h.heard(header)
	s.compare(capacity)
	return int(available), held, nil
}

// release sends a release until it is answered, even if ctx has ended. Its
// grants for this process come with the answer. heldUntil is a local time before
// which the lease can't have ended, zero if that is not known: a token that holds
// nothing before that was released by an attempt whose answer was lost.
func (s *Semaphore) release(ctx context.Context, op, token string, heldUntil time.Time) (free int, err error) {
	if token == "" {
		return 0, s.emptyToken(op)
	}
	h := live.enter(s.spare)
	defer live.exit(h)
	steps := s.steps(h)
	call := uniqueName()
	var header protocol.Header
	var held, lost bool
	var available int64
	err = h.send(context.WithoutCancel(ctx), givePatience, func(ctx context.Context) (err error) {
		header, held, available, err = steps.Release(ctx, token, call)
		lost = lost || ambiguous(err)
		return err
	})
	if err != nil {
		return 0, s.fail(op, err)
	}
	h.heard(header)
	if !held && !(lost && protocol.Now().Before(heldUntil)) {
		failure := &Error{op, s.key, ErrNotHeld, nil}
		if log := s.log.at(logger.Info); log != nil {
			log.Log(logger.Info, "not unlocked", "token", token, "error", failure)
		}
		return int(available), failure
	}
	if log := s.log.at(logger.Info); log != nil {
		log.Log(logger.Info, "unlocked", "token", token, "available", available)
	}
	return int(available), nil
}

// refresh answers the new deadline, local time.
func (s *Semaphore) refresh(ctx context.Context, op, token string) (time.Time, error) {
	if token == "" {
		return time.Time{}, s.emptyToken(op)
	}
	h := live.enter(s.spare)
	defer live.exit(h)
	steps := s.steps(h)
	var header protocol.Header
	var ends []int64
	err := h.send(ctx, givePatience, func(ctx context.Context) (err error) {
		header, ends, err = steps.Renew(ctx, []protocol.Renewal{{Token: token, Lease: s.settings.Expiration}})
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return time.Time{}, contextError(ctx, op, s.key)
		}
		return time.Time{}, s.fail(op, err)
	}
	h.heard(header)
	deadline := header.Deadline(ends[0])
	if ends[0] == 0 || !protocol.Now().Before(deadline) {
		return time.Time{}, &Error{op, s.key, ErrNotHeld, nil}
	}
	if log := s.log.at(logger.Debug); log != nil {
		log.Log(logger.Debug, "refreshed", "token", token)
	}
	return deadline, nil
}

// steps are those of a hub, with the settings of this handle.
func (s *Semaphore) steps(h *hub) protocol.Steps {
	steps := s.base
	steps.Process = h.process()
	return steps
}

// compare logs, once, that the capacity of the live semaphore is another than the
// settings say.
func (s *Semaphore) compare(capacity int64) {
	if capacity == int64(s.settings.MaxParallelResources) || s.warned.Swap(true) {
		return
	}
	if log := s.log.at(logger.Error); log != nil {
		log.Log(logger.Error, "the semaphore exists with another capacity, which counts",
			"capacity", capacity, "settings", s.settings.MaxParallelResources)
	}
}

func (s *Semaphore) fail(op string, err error) error {
	failure := redisError(op, s.key, err)
	if log := s.log.at(logger.Debug); log != nil {
		log.Log(logger.Debug, op+" failed", "error", failure)
	}
	return failure
}

func (s *Semaphore) emptyToken(op string) error {
	return invalidArgument(op, s.key, "the token is empty, must be one that Lock returned")
}

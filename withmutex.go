package redsem

import (
	"context"
	"errors"
	"fmt"

	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/semaphore"
)

// WithMutex runs safeCode while it holds the mutex lockByKey, in turn with
// everybody else, on all machines; with Settings.MaxParallelResources, so many run
// at once. It waits as long as Semaphore.Lock would. The mutex is released when
// safeCode returns or panics; a panic goes on.
//
// If there is an error before safeCode runs, it is not run: errors are those of
// semaphore.New and Lock. An error after it tells that exclusion may have ended
// too early: semaphore.ErrLost if the lease had ended while safeCode ran (see
// Settings.Expiration and Settings.AutoRenew).
func WithMutex(lockByKey string, client redisadapter.Redis, log logger.Logger, safeCode func(), settings ...Settings) error {
	if safeCode == nil {
		return noCode(lockByKey)
	}
	s, err := semaphore.New(lockByKey, client, log, settings...)
	if err != nil {
		return err
	}
	permit, err := s.AcquireWithCustomTimeout(s.Settings().TryLockTimeout)
	if err != nil {
		return err
	}
	return run(permit, func() error {
		safeCode()
		return nil
	})
}

// WithMutexContext is WithMutex for code that takes a context and may fail. It
// waits for its turn as long as ctx lets it. The context that safeCode gets is
// made of ctx, and ends also when the lease is lost: then context.Cause matches
// semaphore.ErrLost. The error of safeCode is handed on, joined with that of the
// release, if any.
func WithMutexContext(ctx context.Context, lockByKey string, client redisadapter.Redis, log logger.Logger,
	safeCode func(ctx context.Context) error, settings ...Settings,
) error {
	if safeCode == nil {
		return noCode(lockByKey)
	}
	s, err := semaphore.New(lockByKey, client, log, settings...)
	if err != nil {
		return err
	}
	permit, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return run(permit, func() error {
		held, stop := permit.Bind(ctx)
		defer stop()
		return safeCode(held)
	})
}

// run releases the permit after code, whether that returns or panics.
func run(permit *semaphore.Permit, code func() error) (err error) {
	defer func() {
		if _, failure := permit.Release(context.Background()); failure != nil {
			err = errors.Join(err, failure)
		}
	}()
	return code()
}

func noCode(key string) error {
	return fmt.Errorf("redsem: lock %q: %w: safeCode is nil, must be a function", key, semaphore.ErrInvalidArgument)
}

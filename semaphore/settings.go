package semaphore

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Bounds and defaults of Settings.
const (
	DefaultExpiration     = time.Minute
	DefaultTryLockTimeout = 30 * time.Second

	minExpiration     = time.Second
	maxExpiration     = 365 * 24 * time.Hour
	minTryLockTimeout = time.Second
	maxCapacity       = 1_000_000
	maxLockAttempts   = 1_000_000
	maxOwner          = 256
)

// Settings of a semaphore. A field that is zero has its default.
type Settings struct {
	// Expiration is the lease: how long a permit is held at most unless it is
	// refreshed, and so the longest time that exclusion is guaranteed after
	// Lock. It also sets how long an unused semaphore stays in Redis: about
	// twice as long. Default 1 minute; at least 1 second, at most 365 days.
	Expiration time.Duration

	// TryLockTimeout is the longest wait of one attempt of Lock. Default 30
	// seconds, or Expiration if that is less; from 1 second to Expiration.
	TryLockTimeout time.Duration

	// MaxParallelResources is the capacity: so many permits there are. While a
	// semaphore exists in Redis the capacity with which it was made counts.
	// Default 1, a mutex; at most 1,000,000. To make a semaphore takes Redis about
	// a microsecond for each.
	MaxParallelResources int

	// LockAttempts is how many attempts Lock makes, each of TryLockTimeout at
	// most. The place in the queue is kept from one to the next. Default 1; at
	// most 1,000,000.
	LockAttempts int

	// AutoRenew makes permits (Acquire, TryAcquire) and WithMutex renew their
	// lease until they are released. Tokens (Lock, TryLock) are not renewed:
	// another process may have them by then.
	AutoRenew bool

	// Owner says who holds or waits, for people who look into Redis. Default
	// HOST/PID; at most 256 bytes.
	Owner string
}

var processOwner = func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}()

// withDefaults fills in what is zero.
func (s Settings) withDefaults() Settings {
	if s.Expiration == 0 {
		s.Expiration = DefaultExpiration
	}
	if s.TryLockTimeout == 0 {
		s.TryLockTimeout = min(DefaultTryLockTimeout, s.Expiration)
	}
	if s.MaxParallelResources == 0 {
		s.MaxParallelResources = 1
	}
	if s.LockAttempts == 0 {
		s.LockAttempts = 1
	}
	if s.Owner == "" {
		s.Owner = processOwner
	}
	return s
}

// validate names the first field that is out of bounds, its value and the bound.
func (s Settings) validate() error {
	switch {
	case s.Expiration < minExpiration || s.Expiration > maxExpiration:
		return outOfBounds("Expiration", s.Expiration, "from %v to %v", minExpiration, maxExpiration)
	case s.MaxParallelResources < 1 || s.MaxParallelResources > maxCapacity:
		return outOfBounds("MaxParallelResources", s.MaxParallelResources, "from 1 to %d", maxCapacity)
	case s.LockAttempts < 1 || s.LockAttempts > maxLockAttempts:
		return outOfBounds("LockAttempts", s.LockAttempts, "from 1 to %d", maxLockAttempts)
	case len(s.Owner) > maxOwner:
		return outOfBounds("Owner", fmt.Sprintf("%d bytes", len(s.Owner)), "at most %d bytes", maxOwner)
	}
	return s.validateTimeout("TryLockTimeout", s.TryLockTimeout)
}

func (s Settings) validateTimeout(name string, d time.Duration) error {
	if d < minTryLockTimeout || d > s.Expiration {
		return outOfBounds(name, d, "from %v to Expiration (%v)", minTryLockTimeout, s.Expiration)
	}
	return nil
}

func outOfBounds(name string, value any, bound string, args ...any) error {
	return fmt.Errorf("%s is %v, must be "+bound, append([]any{name, value}, args...)...)
}

// oneOf gives the only settings of a variadic list, the defaults for none.
func oneOf(settings []Settings) (Settings, error) {
	s, err := only(settings)
	s = s.withDefaults()
	if err == nil {
		err = s.validate()
	}
	return s, err
}

// only gives the only element of a list, or the zero value of an empty one.
func only[S any](settings []S) (s S, err error) {
	switch len(settings) {
	case 0:
		return s, nil
	case 1:
		return settings[0], nil
	}
	return s, fmt.Errorf("%d settings are given, must be one at most", len(settings))
}

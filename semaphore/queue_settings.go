package semaphore

import (
	"fmt"
	"time"
)

// Bounds and defaults of QueueSettings.
const (
	DefaultVisibility = time.Minute

	minVisibility    = time.Second
	maxVisibility    = 365 * 24 * time.Hour
	minJobExpiration = time.Second
	maxJobExpiration = 365 * 24 * time.Hour
)

// QueueSettings of a queue. A field that is zero has its default. They are those of
// one handle: others may use other ones.
type QueueSettings struct {
	// Visibility is how long a consumer has a job for itself, unless it is refreshed:
	// after that it is delivered again. Default 1 minute; at least 1 second, at most
	// 365 days.
	Visibility time.Duration

	// AutoRenew refreshes jobs as long as this process works on them.
	AutoRenew bool

	// AtMostOnce is for consumers who would rather lose a job than have it delivered
	// again: one that was delivered is gone when its Visibility ends. Done ends
	// it earlier, and Return still gives it back.
	AtMostOnce bool

	// JobExpiration is how long the jobs that this handle signals are good: one that
	// has no consumer by then is gone, and so is one that comes back later. Default 0:
	// for ever; else at least 1 second, at most 365 days.
	JobExpiration time.Duration

	// Owner says who consumes, for people who look into Redis. Default HOST/PID; at
	// most 256 bytes.
	Owner string
}

func (s QueueSettings) validate() error {
	switch {
	case s.Visibility < minVisibility || s.Visibility > maxVisibility:
		return outOfBounds("Visibility", s.Visibility, "from %v to %v", minVisibility, maxVisibility)
	case s.JobExpiration != 0 && (s.JobExpiration < minJobExpiration || s.JobExpiration > maxJobExpiration):
		return outOfBounds("JobExpiration", s.JobExpiration, "0 or from %v to %v", minJobExpiration, maxJobExpiration)
	case len(s.Owner) > maxOwner:
		return outOfBounds("Owner", fmt.Sprintf("%d bytes", len(s.Owner)), "at most %d bytes", maxOwner)
	}
	return nil
}

// engine gives what the engine has to know.
func (s QueueSettings) engine() Settings {
	return Settings{Expiration: s.Visibility, AutoRenew: s.AutoRenew, Owner: s.Owner}
}

// oneOfQueue gives the only settings of a variadic list, the defaults for none.
func oneOfQueue(settings []QueueSettings) (QueueSettings, error) {
	s, err := only(settings)
	if s.Visibility == 0 {
		s.Visibility = DefaultVisibility
	}
	if s.Owner == "" {
		s.Owner = processOwner
	}
	if err == nil {
		err = s.validate()
	}
	return s, err
}

package main

import (
	"time"

	"github.com/redsem/redsem/semaphore"
)

const (
	// lease is short, so that whatever dies comes back while the soak runs.
	lease = 3 * time.Second

	// sized is the semaphore that is resized, from 1 to its capacity here.
	sized = "sized"

	jobs = "jobs" // at least once
	once = "once" // at most once
)

// capacities of the semaphores.
var capacities = map[string]int{"one": 1, "three": 3, "ten": 10, sized: 5}

// names of the semaphores, in the order of the report.
var names = []string{"one", "three", "ten", sized}

// backlog is how many jobs are ready when producers pause.
const backlog = 100

func settings(key, owner string, renew bool) semaphore.Settings {
	return semaphore.Settings{Expiration: lease, TryLockTimeout: lease, LockAttempts: 10,
		MaxParallelResources: capacities[key], AutoRenew: renew, Owner: owner}
}

func queueSettings(key, owner string, renew bool) semaphore.QueueSettings {
	return semaphore.QueueSettings{Visibility: lease, AtMostOnce: key == once, AutoRenew: renew, Owner: owner}
}

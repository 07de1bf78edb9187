package redsem

import "github.com/redsem/redsem/semaphore"

// Settings of a semaphore; see semaphore.Settings for each field, its default
// and its bounds.
type Settings = semaphore.Settings

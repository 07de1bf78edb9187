package crashtest

import (
	"time"

	"github.com/redsem/redsem/semaphore"
)

// Part is what a process is told.
type Part struct {
	Role     string
	Child    int // its number, and the first part of Settings.Owner
	Addr     string
	Key      string
	File     string // of its records
	Settings semaphore.Settings
	Queue    semaphore.QueueSettings
	Pause    time.Duration // a gap of that length in its clock is a pause
	Procs    int           // GOMAXPROCS, if not 0
}

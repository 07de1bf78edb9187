package crashtest

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// Clock reads CLOCK_MONOTONIC, in ns: one clock for all processes of a machine.
func Clock() int64 {
	const monotonic = 1
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(fmt.Sprint("clock_gettime: ", errno))
	}
	return t.Nano()
}

// ClockAt is what Clock shows at a moment, if anything a little less.
func ClockAt(t time.Time) int64 {
	now := Clock()
	return now + int64(time.Until(t))
}

package crashtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Event is what a record tells.
type Event string

// The events. An operation is an acquisition, or the delivery of a job, from Asked to
// Left or Lost; or a signal, from Signals to Signalled.
const (
	Asked   Event = "asked"   // before the call
	GaveUp  Event = "gave up" // the call said, as it may, that there is nothing
	Holds   Event = "holds"   // after the call, before the work
	Renewed Event = "renewed" // more is known of the lease: Until, or Token and Fence
	Leaving Event = "leaving" // before the release, or before Done or Return
	Left    Event = "left"    // that was answered without an error
	Lost    Event = "lost"    // that was answered with ErrNotHeld

	Signals   Event = "signals"   // before Signal
	Signalled Event = "signalled" // after it

	Resumed Event = "resumed" // the process has seen that it was paused; Err and Until as of then
	Closed  Event = "closed"  // Done is closed

	Failed Event = "failed" // a call failed as it must not
)

// Record is a line in the file of a process. At and Until are of Clock.
type Record struct {
	At      int64
	Event   Event
	Op      int64    `json:",omitempty"` // of the process
	Token   string   `json:",omitempty"`
	Fence   int64    `json:",omitempty"`
	Permits int      `json:",omitempty"`
	Until   int64    `json:",omitempty"` // the lease does not end before
	Job     int64    `json:",omitempty"` // its id
	Value   string   `json:",omitempty"` // of the job
	Return  bool     `json:",omitempty"` // Leaving gives the job back
	Values  []string `json:",omitempty"` // of Signal
	Err     string   `json:",omitempty"`
}

// Log is a file of records. Each is written by one system call, so a process that is
// killed loses the one being written, at most. It may be used by many goroutines.
type Log struct{ file *os.File }

// OpenLog makes the file.
func OpenLog(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &Log{file}, err
}

// Write appends a record.
func (l *Log) Write(r Record) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	return err
}

// ReadLog reads a file of records. A last line without an end was torn by the death of
// its process, and is ignored. A process that died early has no file.
func ReadLog(path string) ([]Record, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []Record
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		records = append(records, r)
	}
	return records, nil
}

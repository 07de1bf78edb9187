package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// What a worker records, in this order for each package that it gets. Only renewed
// may come any number of times, and queued is left out if the permit was free.
const (
	eventStarted = "started" // the process runs
	eventAsked   = "asked"   // about to call Acquire
	eventQueued  = "queued"  // Redis answered with a ticket
	eventGot     = "got"     // Acquire returned
	eventRenewed = "renewed" // the lease ends later now
	eventLeaving = "leaving" // about to call Release
	eventLeft    = "left"    // Release returned
	eventLost    = "lost"    // instead of left, or leaving: the lease had ended before
)

// What a worker records besides, at any time.
const (
	eventSilence = "silence" // it had heard nothing from Redis for long, until now
	eventTrouble = "trouble" // the library reported an error that it gets over
)

// record is one line in the file of a worker.
type record struct {
	At       time.Duration `json:"at"` // since the demo began
	Worker   string        `json:"worker"`
	Event    string        `json:"event"`
	Package  string        `json:"package,omitempty"`
	Ticket   int64         `json:"ticket,omitempty"`
	Fence    int64         `json:"fence,omitempty"`
	Deadline time.Duration `json:"deadline,omitempty"` // end of the lease, since the demo began
	Digest   string        `json:"digest,omitempty"`
	Since    time.Duration `json:"since,omitempty"` // when the silence began
	Text     string        `json:"text,omitempty"`  // of the trouble
}

// clock tells the time since the demo began, in each process.
//
// The wall clock, which all processes share, is read only once in each, when it
// starts; from there the monotonic clock counts. So nothing is out of order if the
// wall clock is set while the demo runs. That it was not set before, while the
// processes started, the parent sees by their first records.
type clock struct {
	base   time.Time     // with its monotonic reading
	offset time.Duration // from the beginning of the demo to base
}

func newClock(begun time.Time) clock {
	base := time.Now()
	return clock{base: base, offset: base.Sub(begun)}
}

func (c clock) now() time.Duration { return c.at(time.Now()) }

func (c clock) at(t time.Time) time.Duration { return c.offset + t.Sub(c.base) }

// journal is where a worker writes its records: to its file, which counts, and
// then to the parent, for the live view. It may be used by many goroutines at
// once.
type journal struct {
	worker string
	clock  clock

	mu     sync.Mutex
	pkg    string    // what the worker is about; guarded by mu
	file   io.Writer // guarded by mu
	parent io.Writer // guarded by mu
}

// begin says what the records are about from now on.
func (j *journal) begin(pkg string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pkg = pkg
}

// note writes a record, as of now. A line is one write, so that a killed process
// leaves no half of it.
func (j *journal) note(r record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Worker, r.Package, r.At = j.worker, j.pkg, j.clock.now()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := j.file.Write(line); err != nil {
		return err
	}
	_, err = j.parent.Write(line)
	return err
}

// readRecords reads the files of all workers in a folder, each in its order. A
// last line without its end does not count: its writer was killed over it.
func readRecords(folder string) ([]record, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var records []record
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			var r record
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
			records = append(records, r)
		}
	}
	return records, nil
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a worker writes is what the parent reads, in the file and on the pipe.
func TestRecordsAreReadAsWritten(t *testing.T) {
	var file, pipe bytes.Buffer
	j := &journal{worker: "ash", clock: newClock(time.Now()), file: &file, parent: &pipe}
	require.NoError(t, j.note(record{Event: eventStarted}))
	j.begin("net/http")
	require.NoError(t, j.note(record{Event: eventGot, Fence: 3, Deadline: 5 * time.Second}))
	require.Equal(t, file.String(), pipe.String())

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ash.jsonl"), file.Bytes(), 0o600))
	records, err := readRecords(folder)
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.Less(t, records[0].At, records[1].At+1)
	require.Equal(t, record{At: records[1].At, Worker: "ash", Event: eventGot, Package: "net/http", Fence: 3, Deadline: 5 * time.Second}, records[1])
}

func TestTornLastLineDoesNotCount(t *testing.T) {
	folder := t.TempDir()
	text := `{"worker":"ash","event":"started"}` + "\n" + `{"worker":"ash","ev`
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ash.jsonl"), []byte(text), 0o600))
	records, err := readRecords(folder)
	require.NoError(t, err)
	require.Equal(t, []record{{Worker: "ash", Event: eventStarted}}, records)

	text = `{"worker":"ash","ev` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ash.jsonl"), []byte(text), 0o600))
	_, err = readRecords(folder)
	require.Error(t, err)
}

// Two processes that start at different times agree on the time.
func TestClocksAgree(t *testing.T) {
	begun := time.Now()
	parent := newClock(begun)
	worker := newClock(time.Unix(0, begun.UnixNano()))
	require.InDelta(t, parent.now(), worker.now(), float64(time.Second))
	deadline := time.Now().Add(time.Minute)
	require.InDelta(t, parent.at(deadline), worker.at(deadline), float64(time.Second))
}

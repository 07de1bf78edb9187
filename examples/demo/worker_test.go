package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

// newTestWorker makes a worker in this process, and a decoder of what it tells the
// parent.
func newTestWorker(t *testing.T, server *miniredis.Miniredis, name string) (*worker, *json.Decoder) {
	t.Helper()
	read, write := io.Pipe()
	w, err := newWorker(setup{
		Worker:   name,
		Redis:    "redis://" + server.Addr(),
		Key:      "test",
		Settings: semaphore.Settings{Expiration: time.Second, AutoRenew: true},
		Records:  filepath.Join(t.TempDir(), name+".jsonl"),
		Begun:    time.Now().UnixNano(),
	}, write)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.pool.Close()
		w.journal.file.(io.Closer).Close()
		write.Close()
	})
	return w, json.NewDecoder(read)
}

// testJob is a job with one file, of three bytes.
func testJob(t *testing.T, passes int) job {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "abc.go"), []byte("abc"), 0o600))
	return job{Package: "abc", Folder: folder, Files: []string{"abc.go"}, Passes: passes}
}

// next reads the next record, but for those that may come at any time.
func next(t *testing.T, records *json.Decoder, event string) record {
	t.Helper()
	for {
		var r record
		require.NoError(t, records.Decode(&r))
		switch r.Event {
		case event:
			return r
		case eventRenewed, eventTrouble, eventSilence: // go on
		default:
			require.Equal(t, event, r.Event)
		}
	}
}

// A worker records each of its steps, with the ticket if it had to wait.
func TestWorkerRecordsItsSteps(t *testing.T) {
	server := miniredis.RunT(t)
	first, firstRecords := newTestWorker(t, server, "ash")
	second, secondRecords := newTestWorker(t, server, "birch")
	done := make(chan error, 2)

	go func() { done <- first.do(context.Background(), testJob(t, 1)) }() // waits until its records are read
	next(t, firstRecords, eventAsked)
	got := next(t, firstRecords, eventGot)
	go func() { done <- second.do(context.Background(), testJob(t, 1)) }()
	next(t, secondRecords, eventAsked)
	queued := next(t, secondRecords, eventQueued)
	leaving := next(t, firstRecords, eventLeaving)
	next(t, firstRecords, eventLeft)
	gotSecond := next(t, secondRecords, eventGot)
	next(t, secondRecords, eventLeaving)
	next(t, secondRecords, eventLeft)
	require.NoError(t, <-done)
	require.NoError(t, <-done)

	require.Less(t, got.Fence, queued.Ticket)
	require.Less(t, queued.Ticket, gotSecond.Fence)
	require.Greater(t, got.Deadline, got.At)
	// sha256sum abc.go | sha256sum
	require.Equal(t, "b507e122f6d41726b1f41fe67cddc8cbfeacae50db3b1e08704fa3797bdb6f29", leaving.Digest)
}

// A worker that loses its lease stops, and says so.
func TestWorkerThatLosesItsLease(t *testing.T) {
	server := miniredis.RunT(t)
	w, records := newTestWorker(t, server, "ash")
	done := make(chan error, 1)
	go func() { done <- w.do(context.Background(), testJob(t, 1_000_000_000)) }()
	next(t, records, eventAsked)
	next(t, records, eventGot)
	server.FlushAll()
	next(t, records, eventLost)
	require.NoError(t, <-done)
}

// A worker records for how long it heard nothing from Redis.
func TestWorkerRecordsSilence(t *testing.T) {
	server := miniredis.RunT(t)
	w, records := newTestWorker(t, server, "ash")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		w.watch(ctx)
		close(done)
	}()
	require.Eventually(t, func() bool { return server.TotalConnectionCount() > 0 }, patience, time.Millisecond)
	server.SetError("LOADING")
	time.Sleep(2 * silence)
	server.SetError("")
	r := next(t, records, eventSilence)
	require.Greater(t, r.At-r.Since, silence)
	cancel()
	<-done
}

// A worker renews its lease as long as it works, and records that.
func TestWorkerRenewsItsLease(t *testing.T) {
	server := miniredis.RunT(t)
	w, records := newTestWorker(t, server, "ash")
	done := make(chan error, 1)
	go func() { done <- w.do(context.Background(), testJob(t, 1_000_000_000)) }()
	next(t, records, eventAsked)
	got := next(t, records, eventGot)
	for next(t, records, eventRenewed).Deadline < got.Deadline+time.Second { // it would have ended before
	}
	server.FlushAll()
	next(t, records, eventLost)
	require.NoError(t, <-done)
}

// Files that change under the worker's hands are no result.
func TestPassesMustAgree(t *testing.T) {
	j := testJob(t, 3)
	_, err := j.hashAll(t.Context(), func() error {
		return os.WriteFile(filepath.Join(j.Folder, "abc.go"), []byte("abcd"), 0o600)
	})
	require.ErrorIs(t, err, errChanged)
}

// The job of a dead worker is given to one that had none left.
func TestIdleWorkerTakesOver(t *testing.T) {
	var orders bytes.Buffer
	heir := &member{name: "ash", orders: json.NewEncoder(&orders)}
	dead := &member{name: victim, job: job{Package: "abc", Passes: 1, pass: time.Millisecond, wanted: 7 * time.Millisecond}}
	p := &parent{crew: &crew{workers: []*member{heir, dead}}, slowdown: 1, killedAt: 1}
	p.next(heir)
	require.Empty(t, orders.String())
	require.NoError(t, p.died(dead, nil))
	require.Equal(t, `{"package":"abc","folder":"","files":null,"passes":7}`, strings.TrimSpace(orders.String()))

	require.ErrorContains(t, p.died(heir, nil), "ash ended by itself")
}

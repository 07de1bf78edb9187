package crashtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// gap is what the clock of a process must have jumped by for a pause: more than it does
// on a busy machine, at the moment that counts.
const gap = 2 * time.Second

// stop stops the process with SIGSTOP, and waits until none of its threads runs. It
// answers Clock after that.
func (p *process) stop() int64 {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(p.t, p.stopped, patience, time.Millisecond)
	return Clock()
}

// stopped says whether all threads of the process are in the state T.
func (p *process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, thread := range threads {
		stat, failure := os.ReadFile(thread)
		_, state, _ := strings.Cut(string(stat), ") ")
		if failure != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// resume lets the process go on, after a gap, and answers Clock before.
func (p *process) resume(stopped int64) int64 {
	p.t.Helper()
	time.Sleep(gap + gap/10 - time.Duration(Clock()-stopped))
	at := Clock()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
	return at
}

// await waits until the process has recorded an event.
func (p *process) await(event Event) Record {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		records, err := ReadLog(p.File)
		require.NoError(p.t, err)
		for _, r := range records {
			require.NotEqual(p.t, Failed, r.Event, "%+v", r)
			if r.Event == event {
				return r
			}
		}
	}
	p.t.Fatalf("process %d, %s of %q, does not record %q", p.Child, p.Role, p.Key, event)
	return Record{}
}

// recorded says whether the process has recorded an event.
func (p *process) recorded(event Event) bool {
	p.t.Helper()
	records, err := ReadLog(p.File)
	require.NoError(p.t, err)
	return slices.ContainsFunc(records, func(r Record) bool { return r.Event == event })
}

// handle is one of this process on a key.
func handle(t *testing.T, key string, lease time.Duration) *semaphore.Semaphore {
	t.Helper()
	pool := redistest.UserPool(server.Addr)
	t.Cleanup(func() { pool.Close() })
	s, err := semaphore.New(key, redigoadapter.New(pool), nil, semaphore.Settings{Expiration: lease, TryLockTimeout: time.Second, AutoRenew: true})
	require.NoError(t, err)
	return s
}

// pausedHolder is a process that was stopped while it held the only permit of a key.
type pausedHolder struct {
	*process
	held  Record
	since int64             // it is stopped, by Clock
	next  *semaphore.Permit // that this process got meanwhile
}

func TestHolderPausedForLongerThanItsLease(t *testing.T) {
	const lease = 3 * time.Second // long enough to be paused before its end
	var all []*pausedHolder       // paused all at once, to save time
	for name, part := range map[string]Part{
		"permit":                   {Role: "pause permit"},
		"permit, on one processor": {Role: "pause permit", Procs: 1},
		"renewed permit":           {Role: "pause renewed"},
		"renewed permit, on one":   {Role: "pause renewed", Procs: 1},
		"mutex":                    {Role: "pause mutex"},
		"token":                    {Role: "pause lock"},
		"released at once":         {Role: "pause release"},
		"released at once, on one": {Role: "pause release", Procs: 1},
	} {
		part.Key, part.Pause = name, gap
		part.Settings = semaphore.Settings{Expiration: lease, TryLockTimeout: time.Second}
		p := newCrew(t).mustStart(part)
		p.awaitHold()
		all = append(all, &pausedHolder{process: p, held: p.await(Holds), since: p.stop()})
	}
	for _, h := range all {
		var err error
		h.next, err = handle(t, h.Key, lease).Acquire(context.Background())
		require.NoError(t, err)
		require.Greater(t, Clock(), h.held.Until-int64(drift), "%s: granted before the end of the lease", h.Key)
		require.Greater(t, h.next.Fence(), h.held.Fence)
	}
	for _, h := range all {
		t.Run(h.Key, func(t *testing.T) {
			h.t = t
			require.NoError(t, context.Cause(h.next.Context()))
			requireNoBelief(t, h.process, h.since, h.resume(h.since))
			requireHolds(t, handle(t, h.Key, lease), h.next)
			require.NoError(t, h.finish())
		})
	}
}

// mostBelief is the longest that a process may take, when it runs again, until Done is
// closed. The timers of Go are due at once then; the machine may be busy.
const mostBelief = 5 * time.Second

// requireNoBelief checks what a process that was paused for longer than its lease
// has recorded since: its deadline was over when its first code ran, and Err of its
// context said so; Done was closed a moment later; the release answered ErrNotHeld.
func requireNoBelief(t *testing.T, p *process, stopped, resumed int64) {
	t.Helper()
	first := p.await(Resumed)
	require.Greater(t, first.At, resumed, "it was not paused")
	lost := p.await(Lost)
	switch p.Role {
	case "pause lock": // a token has no Done
		return
	case "pause release": // does not wait for it
		require.Contains(t, lost.Err, semaphore.ErrLost.Error())
		return
	}
	closed := p.await(Closed)
	if first.Until != 0 {
		require.Less(t, first.Until, first.At, "the deadline is not over")
		require.Greater(t, first.Until, stopped, "the pause began too late")
	}
	require.NotEmpty(t, first.Err, "the first code that ran was not told by the context's Err")
	require.Contains(t, closed.Err, semaphore.ErrLost.Error())
	require.Less(t, time.Duration(closed.At-resumed), mostBelief)
	require.Greater(t, lost.At, closed.At)
	t.Logf("measured: first code %v after SIGCONT, context ended already; Done closed %v after that",
		time.Duration(first.At-resumed), time.Duration(closed.At-first.At))
}

// requireHolds checks that a permit of this process, the only one, is still held, and
// comes back to the semaphore.
func requireHolds(t *testing.T, s *semaphore.Semaphore, p *semaphore.Permit) {
	t.Helper()
	held, err := s.IsResourceLocked(p.Token())
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, p.Refresh(context.Background()))
	require.NoError(t, context.Cause(p.Context()))
	available, err := p.Release(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, available)
}

func TestHolderPausedForLongerThanItsLeaseLosesItThoughNobodyWaits(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	p := newCrew(t).mustStart(Part{Role: "pause renewed", Key: t.Name(), Pause: gap, Settings: semaphore.Settings{Expiration: lease, TryLockTimeout: time.Second}})
	s := handle(t, t.Name(), lease)
	p.awaitHold()
	token := p.await(Holds).Token
	stopped := p.stop()
	time.Sleep(2 * lease)
	resumed := p.resume(stopped)
	requireNoBelief(t, p, stopped, resumed)
	held, err := s.IsResourceLocked(token)
	require.NoError(t, err)
	require.False(t, held, "a lease that has ended was renewed")
	require.NoError(t, p.finish())
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 1, free)
}

func TestWaiterPausedForLongerThanTheClaimWindowWhenGranted(t *testing.T) {
	const lease, pause = 10 * time.Second, 3 * time.Second
	for name, role := range map[string]string{"permit": "one permit", "token": "one lock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := handle(t, t.Name(), lease)
			permit, err := s.Acquire(context.Background())
			require.NoError(t, err)
			settings := semaphore.Settings{Expiration: lease, TryLockTimeout: lease, LockAttempts: 10}
			p := newCrew(t).mustStart(Part{Role: role, Key: t.Name(), Settings: settings})
			require.Eventually(t, func() bool {
				snapshot, err := s.Inspect(context.Background())
				require.NoError(t, err)
				return snapshot.WaiterCount == 1
			}, patience, 5*time.Millisecond)

			stopped := p.stop()
			_, err = permit.Release(context.Background()) // goes to the paused one
			require.NoError(t, err)
			snapshot, err := s.Inspect(context.Background())
			require.NoError(t, err)
			require.Len(t, snapshot.Holders, 1)
			missed := snapshot.Holders[0]
			next, err := s.Acquire(context.Background())
			require.NoError(t, err)
			require.Greater(t, time.Duration(Clock()-stopped), pause-50*time.Millisecond)
			require.False(t, p.recorded(Holds))

			p.resume(stopped)
			time.Sleep(500 * time.Millisecond) // it has every opportunity to go wrong
			require.False(t, p.recorded(Holds), "it used a grant that had ended")
			require.NoError(t, context.Cause(next.Context()))
			left := Clock()
			_, err = next.Release(context.Background())
			require.NoError(t, err)
			p.await(Left)
			held := p.await(Holds)
			require.Greater(t, held.At, left)
			require.Equal(t, missed.Token, held.Token, "it kept its token, and so its place")
			if held.Fence != 0 {
				require.Greater(t, held.Fence, next.Fence())
			}
			require.NoError(t, p.finish())
		})
	}
}

func TestConsumerPausedForLongerThanItsVisibility(t *testing.T) {
	t.Parallel()
	const visibility = time.Second
	pool := redistest.UserPool(server.Addr)
	t.Cleanup(func() { pool.Close() })
	settings := semaphore.QueueSettings{Visibility: visibility, AutoRenew: true}
	q, err := semaphore.NewQueue(t.Name(), redigoadapter.New(pool), nil, settings)
	require.NoError(t, err)
	_, err = q.Signal(context.Background(), "work")
	require.NoError(t, err)
	p := newCrew(t).mustStart(Part{Role: "pause job", Key: t.Name(), Pause: gap, Queue: settings})
	p.awaitHold()
	held := p.await(Holds)
	stopped := p.stop()
	job, err := q.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, held.Job, job.ID())
	require.Equal(t, 2, job.Deliveries())
	require.Greater(t, job.Fence(), held.Fence)

	resumed := p.resume(stopped)
	requireNoBelief(t, p, stopped, resumed)
	require.NoError(t, p.finish())
	require.NoError(t, job.Refresh(context.Background()), "the Done of the paused one ended it")
	require.NoError(t, job.Done(context.Background()))
	s, err := q.Inspect(context.Background())
	require.NoError(t, err)
	require.Zero(t, s.ReadyCount+s.WorkingCount)
}

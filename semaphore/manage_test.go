package semaphore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/semaphore"
)

func TestResizeUpServesTheQueueAtOnce(t *testing.T) {
	s := newSemaphore(t)
	conn := server.Dial(t)
	_, err := s.Lock()
	require.NoError(t, err)
	var waiters []<-chan *semaphore.Permit
	for i := range 3 {
		waiters = append(waiters, wants(t, s, 1))
		awaitQueue(t, conn, t.Name(), i+1)
	}
	require.NoError(t, s.Resize(context.Background(), 3))
	for _, w := range waiters[:2] {
		require.NotNil(t, <-w)
	}
	require.Len(t, queued(t, conn, t.Name()), 1)
	require.Empty(t, waiters[2])
	require.NoError(t, s.Resize(context.Background(), 4))
	require.NotNil(t, <-waiters[2])
}

func TestResizeDownRevokesNothingAndIsReachedAsPermitsComeBack(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 4})
	var tokens []string
	for range 3 {
		token, err := s.Lock()
		require.NoError(t, err)
		tokens = append(tokens, token)
	}
	require.NoError(t, s.Resize(context.Background(), 1))
	for _, token := range tokens {
		held, err := s.IsResourceLocked(token)
		require.NoError(t, err)
		require.True(t, held)
	}
	snapshot, err := s.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{1, 0, 3}, []int{snapshot.Capacity, snapshot.Free, snapshot.Held})
	for i, token := range tokens {
		_, err := s.TryLock()
		require.ErrorIs(t, err, semaphore.ErrNotAvailable, "%d are still held", 3-i)
		require.NoError(t, s.Unlock(token))
	}
	token, err := s.TryLock()
	require.NoError(t, err)
	_, err = s.TryLock()
	require.ErrorIs(t, err, semaphore.ErrNotAvailable)
	require.NoError(t, s.Unlock(token))
}

func TestConcurrentResizesAndOtherSettingsSeeOneTruth(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	other, err := semaphore.New(t.Name(), adapter(t, server.Addr), nil, semaphore.Settings{MaxParallelResources: 9})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := s.Resize(context.Background(), i%7+1); err != nil {
				t.Error(err)
			}
			if permit, err := other.TryAcquire(context.Background()); err == nil {
				permit.Release(context.Background())
			}
		})
	}
	wg.Wait()
	one, err := s.Inspect(context.Background())
	require.NoError(t, err)
	two, err := other.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, one.Capacity, two.Capacity)
	require.Equal(t, one.Capacity, one.Free)
	n, err := redis.Int(server.Dial(t).Do("LLEN", key(t.Name(), ":available")))
	require.NoError(t, err)
	require.Equal(t, one.Capacity, n)
}

func TestResizeOfWhatDoesNotExistCreatesIt(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 2})
	require.NoError(t, s.Resize(context.Background(), 5))
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 5, free)
}

func TestInspectShowsHoldersAndWaiters(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 4, Owner: "me"})
	conn := server.Dial(t)
	empty, err := s.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []any{false, 4, 4}, []any{empty.Exists, empty.Capacity, empty.Free})
	require.Contains(t, empty.String(), "not in use")

	permit, err := s.AcquireN(context.Background(), 3)
	require.NoError(t, err)
	you, err := semaphore.New(t.Name(), adapter(t, server.Addr), nil, semaphore.Settings{Owner: "you and I"})
	require.NoError(t, err)
	first := wants(t, you, 2)
	awaitQueue(t, conn, t.Name(), 1)
	second := wants(t, s, 1)
	awaitQueue(t, conn, t.Name(), 2)

	now := serverTime(t, conn)
	got, err := s.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{4, 1, 3, 1, 2}, []int{got.Capacity, got.Free, got.Held, got.HolderCount, got.WaiterCount})
	h := got.Holders[0]
	require.Equal(t, []any{permit.Token(), "me", 3, permit.Fence()}, []any{h.Token, h.Owner, h.Permits, h.Fence})
	require.WithinDuration(t, now, h.Since, patience)
	require.Equal(t, time.Minute, h.Expires.Sub(h.Since))
	require.WithinDuration(t, now, got.Time, patience)
	require.Equal(t, "you and I", got.Waiters[0].Owner)
	require.Equal(t, []int{1, 2, 2, 1}, []int{got.Waiters[0].Position, got.Waiters[0].Permits, got.Waiters[1].Position, got.Waiters[1].Permits})
	require.True(t, got.Waiters[0].Alive)
	require.WithinDuration(t, now, got.Waiters[0].Since, patience)

	text := got.String()
	require.Contains(t, text, "1 of 4 permits free, 1 holding, 2 waiting")
	require.Contains(t, text, "you and I")
	require.Len(t, strings.Split(strings.TrimSpace(text), "\n"), 4, text)
	_, err = permit.Release(context.Background())
	require.NoError(t, err)
	for _, waiter := range []<-chan *semaphore.Permit{first, second} {
		_, err = (<-waiter).Release(context.Background())
		require.NoError(t, err)
	}
}

func TestSnapshotIsForPeopleToRead(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := semaphore.Snapshot{
		Key: "gpu", Time: now, Exists: true, Capacity: 10, Free: 1, Held: 9, HolderCount: 3, WaiterCount: 2,
		Holders: []semaphore.Holder{
			{Token: "t1", Owner: "build-1/4711", Permits: 8, Fence: 17, Since: now.Add(-90 * time.Second), Expires: now.Add(30 * time.Second)},
			{Token: "t2", Owner: "b\x1b[2J", Permits: 1, Fence: 18, Since: now.Add(-time.Second / 2), Expires: now.Add(59500 * time.Millisecond)},
		},
		Waiters: []semaphore.Waiter{
			{Owner: "build-2/812", Position: 1, Permits: 4, Since: now.Add(-12 * time.Second), Alive: true},
			{Owner: "build-3/99", Position: 2, Permits: 1, Since: now.Add(-2 * time.Second)},
		},
	}
	require.Equal(t, `"gpu": 1 of 10 permits free, 3 holding, 2 waiting
  holds  build-1/4711  8 permits  for 1m30s  ends in 30s    fence 17  token t1
  holds  "b\x1b[2J"    1 permit   for 500ms  ends in 59.5s  fence 18  token t2
  and 1 more holders
  1.  build-2/812  4 permits  for 12s
  2.  build-3/99   1 permit   for 2s  no sign of life
`, s.String())
}

func TestInspectIsBoundedAndItsCountsStayTrue(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 1200})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 150 {
				if _, err := s.Lock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	conn := server.Dial(t)
	for i := range 1100 {
		entry := fmt.Sprintf("token-%d 1 60000 nobody somebody", i)
		_, err := conn.Do("ZADD", key(t.Name(), ":queue"), time.Now().UnixMicro()+int64(i), entry)
		require.NoError(t, err)
	}
	_, err := conn.Do("ZADD", key(t.Name(), ":clients"), time.Now().UnixMilli()+60000, "nobody")
	require.NoError(t, err)
	got, err := s.Inspect(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{1200, 1200, 1100}, []int{got.Held, got.HolderCount, got.WaiterCount})
	require.Len(t, got.Holders, 1000)
	require.Len(t, got.Waiters, 1000)
	require.Contains(t, got.String(), "and 200 more holders")
	require.Contains(t, got.String(), "and 100 more waiters")
}

func TestReleaseStaleTakesEndedLeasesBackAndCountsThem(t *testing.T) {
	s := newSemaphore(t, semaphore.Settings{MaxParallelResources: 600, Expiration: time.Second})
	n, err := s.ReleaseStale(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
	for range 550 { // more than one call reclaims
		_, err := s.Lock()
		require.NoError(t, err)
	}
	reclaimed := 0
	await(t, func() bool {
		n, err := s.ReleaseStale(context.Background())
		require.NoError(t, err)
		reclaimed += n
		free, err := redis.Int(server.Dial(t).Do("LLEN", key(t.Name(), ":available")))
		require.NoError(t, err)
		return free == 600
	})
	require.Positive(t, reclaimed)
	require.LessOrEqual(t, reclaimed, 550)
}

func TestExistsFromFirstUseToDelete(t *testing.T) {
	s := newSemaphore(t)
	exists := func() bool {
		exists, err := s.Exists(context.Background())
		require.NoError(t, err)
		return exists
	}
	require.False(t, exists())
	token, err := s.Lock()
	require.NoError(t, err)
	require.True(t, exists())
	require.NoError(t, s.Delete(context.Background()))
	require.False(t, exists())
	require.ErrorIs(t, s.Unlock(token), semaphore.ErrNotHeld)
	require.NoError(t, s.Delete(context.Background()), "nothing to delete is no error")
	keys, err := redis.Strings(server.Dial(t).Do("KEYS", key(t.Name(), "*")))
	require.NoError(t, err)
	require.Equal(t, []string{key(t.Name(), ":calls")}, keys, "for ten seconds")
}

func TestDeleteStrandsNobodyAndKeepsTheOrder(t *testing.T) {
	verifyNoLeak(t)
	s := newSemaphore(t)
	conn := server.Dial(t)
	permit, err := s.Acquire(context.Background())
	require.NoError(t, err)
	const waiters = 12
	served := make(chan int, waiters)
	processes := []*semaphore.Semaphore{s, newSemaphore(t), newSemaphore(t)}
	for i := range waiters {
		go func() {
			permit, err := processes[i%3].Acquire(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			served <- i
			if _, err := permit.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		awaitQueue(t, conn, t.Name(), i+1)
	}
	require.NoError(t, newSemaphore(t).Delete(context.Background()))
	for i := range waiters {
		select {
		case who := <-served:
			require.Equal(t, i, who)
		case <-time.After(patience):
			t.Fatalf("only %d are served", i)
		}
	}
	_, err = permit.Release(context.Background())
	require.ErrorIs(t, err, semaphore.ErrNotHeld)
	next, err := s.Acquire(context.Background())
	require.NoError(t, err)
	require.Greater(t, next.Fence(), permit.Fence())
	_, err = next.Release(context.Background())
	require.NoError(t, err)
}

func TestWaitAndSignalAreTheClassicNames(t *testing.T) {
	s := newSemaphore(t)
	token, err := s.Wait()
	require.NoError(t, err)
	require.NoError(t, s.Signal(token))
	require.ErrorIs(t, s.Signal(token), semaphore.ErrNotHeld, "a repeated token mints nothing")
	requireAllFree(t, s)

	require.NoError(t, s.Signal(""))
	free, err := s.GetNumAvailableResources()
	require.NoError(t, err)
	require.Equal(t, 2, free, "without a token it adds a permit")
	first, err := s.TryLock()
	require.NoError(t, err)
	second, err := s.TryLock()
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

func TestManagementHonoursItsContext(t *testing.T) {
	s := newSemaphore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Resize(ctx, 2), context.Canceled)
	_, err := s.Inspect(ctx)
	require.ErrorIs(t, err, semaphore.ErrCanceled)
	_, err = s.ReleaseStale(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Delete(ctx), context.Canceled)
	_, err = s.Exists(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

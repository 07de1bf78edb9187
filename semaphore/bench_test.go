package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// benchSemaphore makes a handle for a benchmark, and the pool behind it.
func benchSemaphore(b *testing.B, settings semaphore.Settings) (*semaphore.Semaphore, *redis.Pool) {
	b.Helper()
	pool := redistest.Pool(b, server.Addr, 0)
	s, err := semaphore.New(b.Name(), redigoadapter.New(pool), nil, settings)
	if err != nil {
		b.Fatal(err)
	}
	return s, pool
}

// lockUnlock is one cycle.
func lockUnlock(b *testing.B, s *semaphore.Semaphore) {
	token, err := s.Lock()
	if err == nil {
		err = s.Unlock(token)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkUncontended compares a Lock and an Unlock with the floor: two scripts
// that do nothing, on the same pool. The two take turns, so that the noise of the
// machine meets both.
func BenchmarkUncontended(b *testing.B) {
	s, pool := benchSemaphore(b, semaphore.Settings{})
	empty := redis.NewScript(0, "return 1")
	floor := func() {
		for range 2 {
			conn := pool.Get()
			if _, err := empty.Do(conn); err != nil {
				b.Error(err)
			}
			conn.Close()
		}
	}
	floor()
	lockUnlock(b, s)
	b.ReportAllocs()
	var spent, floored time.Duration
	for b.Loop() {
		start := time.Now()
		lockUnlock(b, s)
		middle := time.Now()
		floor()
		spent += middle.Sub(start)
		floored += time.Since(middle)
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/lock+unlock")
	b.ReportMetric(float64(floored.Nanoseconds())/float64(b.N), "ns/floor")
	b.ReportMetric(float64(spent)/float64(floored), "ratio")
}

// BenchmarkContended has 64 goroutines hand a mutex on, beside the floor: a baton
// passed round as many connections, by a bare BLPOP and RPUSH.
func BenchmarkContended(b *testing.B) {
	const goroutines = 64
	b.Run("Lock", func(b *testing.B) {
		s, _ := benchSemaphore(b, semaphore.Settings{})
		share(b, goroutines, func() { lockUnlock(b, s) })
	})
	b.Run("Acquire", func(b *testing.B) {
		s, _ := benchSemaphore(b, semaphore.Settings{})
		share(b, goroutines, func() {
			permit, err := s.Acquire(context.Background())
			if err == nil {
				_, err = permit.Release(context.Background())
			}
			if err != nil {
				b.Error(err)
			}
		})
	})
	b.Run("Baton", func(b *testing.B) { passBaton(b, goroutines) })
}

// share has goroutines do b.N cycles between them.
func share(b *testing.B, goroutines int, cycle func()) {
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for range (b.N + i) / goroutines {
				cycle()
			}
		})
	}
	wg.Wait()
}

func passBaton(b *testing.B, goroutines int) {
	pool := redistest.Pool(b, server.Addr, 0)
	list := func(i int) string { return b.Name() + string(rune('A'+i%goroutines)) }
	starter := pool.Get()
	defer starter.Close()
	starter.Do("DEL", list(0))
	starter.Do("RPUSH", list(0), "baton")
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			conn := pool.Get()
			defer conn.Close()
			for range (b.N + goroutines - 1 - i) / goroutines {
				if _, err := conn.Do("BLPOP", list(i), 0); err != nil {
					b.Error(err)
				}
				if _, err := conn.Do("RPUSH", list(i+1), "baton"); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkParallel has 256 goroutines share 32 permits, beside the floor: as many
// goroutines that send two empty scripts each.
func BenchmarkParallel(b *testing.B) {
	const goroutines = 256
	b.Run("Lock", func(b *testing.B) {
		s, _ := benchSemaphore(b, semaphore.Settings{MaxParallelResources: 32})
		share(b, goroutines, func() { lockUnlock(b, s) })
	})
	b.Run("Floor", func(b *testing.B) {
		pool := redistest.Pool(b, server.Addr, 0)
		empty := redis.NewScript(0, "return 1")
		share(b, goroutines, func() {
			for range 2 {
				conn := pool.Get()
				if _, err := empty.Do(conn); err != nil {
					b.Error(err)
				}
				conn.Close()
			}
		})
	})
}

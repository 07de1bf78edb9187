package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
	"github.com/redsem/redsem/semaphore"
)

// exampleClient is a client of the test server; for yours see the quick start.
func exampleClient() redisadapter.Redis {
	return redigoadapter.New(redistest.NewPool(server.Addr, 0))
}

func ExampleSemaphore_Lock() {
	s, err := semaphore.New("gpu", exampleClient(), nil, semaphore.Settings{MaxParallelResources: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := s.Lock() // waits for its turn
	if err != nil {
		fmt.Println(err)
		return
	}
	free, _ := s.GetNumAvailableResources()
	fmt.Println(free, "of 10 are free")
	fmt.Println(s.Unlock(token)) // here, or in any process that has the token
	// Output:
	// 9 of 10 are free
	// <nil>
}

func ExampleSemaphore_Acquire() {
	s, err := semaphore.New("leader", exampleClient(), nil, semaphore.Settings{AutoRenew: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := s.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release(context.Background())
	select {
	case <-permit.Done(): // lost: stop at once
	case <-time.After(10 * time.Millisecond): // work
		fmt.Println("worked as the only one")
	}
	// Output: worked as the only one
}

func ExampleSemaphore_LockContext() {
	s, _ := semaphore.New("slow", exampleClient(), nil)
	token, _ := s.Lock()
	defer s.Unlock(token)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := s.LockContext(ctx)
	fmt.Println(errors.Is(err, semaphore.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

func ExampleSemaphore_TryLock() {
	s, _ := semaphore.New("busy", exampleClient(), nil)
	token, _ := s.Lock()
	defer s.Unlock(token)

	_, err := s.TryLock()
	fmt.Println(err)
	// Output: redsem: try lock "busy": none available
}

func ExamplePermit_Fence() {
	s, _ := semaphore.New("store", exampleClient(), nil)
	var highest int64 // what the store has seen
	write := func(fence int64) bool {
		if fence < highest {
			return false // from a holder that does not know yet that it lost its permit
		}
		highest = fence
		return true
	}
	first, _ := s.TryAcquire(context.Background())
	fmt.Println(write(first.Fence()))
	first.Release(context.Background())
	second, _ := s.TryAcquire(context.Background())
	fmt.Println(write(second.Fence()))
	fmt.Println(write(first.Fence()))
	second.Release(context.Background())
	// Output:
	// true
	// true
	// false
}

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

func ExamplePermit_Bind() {
	s, _ := semaphore.New("report", exampleClient(), nil)
	request, cancel := context.WithCancel(context.Background()) // that of a caller, say
	permit, _ := s.TryAcquire(request)
	defer permit.Release(context.Background())

	ctx, stop := permit.Bind(request) // ends with the request, and with the permit
	defer stop()
	fmt.Println(ctx.Err())
	cancel()
	fmt.Println(ctx.Err())
	// Output:
	// <nil>
	// context canceled
}

func ExampleSemaphore_AcquireN() {
	memory, _ := semaphore.New("memory", exampleClient(), nil, semaphore.Settings{MaxParallelResources: 64})
	permit, err := memory.AcquireN(context.Background(), 48) // all of them at once, in its turn
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release(context.Background())
	_, err = memory.TryAcquireN(context.Background(), 32)
	fmt.Println(err)
	_, err = memory.AcquireN(context.Background(), 65)
	fmt.Println(err)
	// Output:
	// redsem: try acquire "memory": none available
	// redsem: acquire "memory": more permits than the capacity: 65 of 64
}

func ExampleSemaphore_Resize() {
	s, _ := semaphore.New("fragile-api", exampleClient(), nil, semaphore.Settings{MaxParallelResources: 5})
	if err := s.Resize(context.Background(), 2); err != nil { // for all handles, while it is in use
		fmt.Println(err)
	}
	snapshot, _ := s.Inspect(context.Background())
	fmt.Print(snapshot)
	// Output: "fragile-api": 2 of 2 permits free, 0 holding, 0 waiting
}

func ExampleQueue() {
	q, err := semaphore.NewQueue("mail", exampleClient(), nil, semaphore.QueueSettings{AutoRenew: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := q.Signal(context.Background(), "to ash", "to birch"); err != nil {
		fmt.Println(err)
		return
	}
	job, err := q.Wait(context.Background()) // the oldest job, for whoever waits longest
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sent", job.Value)
	if err := job.Done(context.Background()); err != nil { // if we die before, it is delivered again
		fmt.Println(err)
	}
	left, _ := q.Len(context.Background())
	fmt.Println(left, "left")
	// Output:
	// sent to ash
	// 1 left
}

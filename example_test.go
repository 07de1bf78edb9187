package redsem_test

import (
	"context"
	"fmt"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// exampleClient is a client of the test server; for yours see the quick start.
func exampleClient() redisadapter.Redis {
	return redigoadapter.New(redistest.NewPool(server.Addr, 0))
}

func ExampleWithMutex() {
	client := exampleClient()
	err := redsem.WithMutex("deploy", client, nil, func() {
		fmt.Println("one at a time, on all machines")
	})
	if err != nil {
		fmt.Println("not deployed:", err)
	}
	// Output: one at a time, on all machines
}

func ExampleWithMutexContext() {
	client := exampleClient()
	err := redsem.WithMutexContext(context.Background(), "report", client, nil, func(ctx context.Context) error {
		// ctx ends when the lease is lost; give it to whatever takes long
		return ctx.Err()
	}, redsem.Settings{AutoRenew: true})
	fmt.Println(err)
	// Output: <nil>
}

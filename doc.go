// Package redsem shares limited resources among programs on many machines: a
// blocking, fair-queue semaphore and mutex on Redis. Who waits is asleep, and is
// served first come, first served; the permit of a process that crashed comes
// back by itself.
//
// This package has the shortest way to use it: code that runs under a lock.
//
//	err := redsem.WithMutex("deploy", redigoadapter.New(pool), nil, func() {
//		// one at a time, on all machines
//	})
//
// The parts:
//
//   - [github.com/redsem/redsem/semaphore] is the engine: Lock and Unlock with
//     tokens, permits that live with the code that holds them, fencing numbers,
//     renewal, job queues. Its documentation explains the protocol.
//   - [github.com/redsem/redsem/redisadapter] is what redsem asks of a Redis
//     client; one package below it for each client: redigoadapter.
//   - [github.com/redsem/redsem/logger] is where redsem tells of its work; there are
//     loggers for log/slog and logrus.
package redsem

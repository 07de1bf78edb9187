// Package semaphore is a counting semaphore that lives in Redis, and with a
// capacity of one a mutex; and a queue of jobs made of the same parts. Waiters sleep,
// they do not poll; they are served first come, first served, across all processes
// and machines; a permit, or a job, whose holder died comes back by itself.
//
// # Use
//
// A Semaphore is a handle; any number of them on one key, anywhere, are handles
// on one semaphore. There are two ways to hold a permit:
//
//   - Lock returns a token, a string that any process may hand on and Unlock. It is
//     good for Settings.Expiration from its grant in Redis, even if this process
//     ends.
//   - Acquire returns a Permit, which belongs to this process: it has a deadline, a
//     fencing number, a context that ends when the permit is lost, and with
//     Settings.AutoRenew it is renewed until Release. It is faster under
//     contention, by one round trip a hand-over.
//
// AcquireN takes several permits at once. Inspect tells who holds and who waits;
// Resize changes the capacity; Delete removes the semaphore.
//
// A Queue has jobs in place of permits: Signal adds them, Wait takes the oldest, Done
// ends it. Until then it is held, as a permit is: by a lease, with a fence, renewed if
// QueueSettings.AutoRenew says so, and delivered again when the lease ends.
//
// # How it works
//
// The state is a handful of Redis keys in one hash slot, listed in
// docs/protocol.md. It changes only by scripts, the steps, each of them atomic,
// bounded, and safe to repeat, so that a step whose answer was lost is simply sent
// again:
//
//	acquire   take free permits at once, or a place in the queue
//	release   give permits back, to the head of the queue if somebody waits
//	renew     extend leases that have not ended
//	tend      I am alive; reclaim; what has become of my waiters; renew; leave
//	leave     a waiter goes, whether still queued or granted meanwhile
//	status    how many are free, does this token hold
//	inspect   who holds, who waits, as one reading
//	reclaim   take back what ended leases held, as every step does
//	resize    another capacity
//	delete    remove all but the places of those who wait
//	signal    add jobs
//	fetch     hand a job over to the consumer that was granted it
//
// Every acquisition has a token of its own, a UUID that is used once, and every
// hold is a lease with an end by the server's clock. Whatever step runs first
// after that end takes the permits back. A permit that comes free goes to the head
// of the queue in the same step; only if that asks for more than are free, or
// nobody waits, do permits stay in the list of available ones. Nobody overtakes
// the head, so nobody starves.
//
// The news of a grant travels with the answer of the step that made it, if the
// waiter is in the process that sent the step; else through the inbox of the
// waiter's process, a list on which one blocking pop waits for all its waiters on
// that semaphore. News is all it is: the permit was moved inside Redis before.
// News that is lost is learnt again with the next tend.
//
// While somebody in a process waits, its hub, shared by all handles on that key
// and client, runs two goroutines: one pops the inbox; one tends, once a second and
// at the end of the next lease. Thus a permit whose holder died is taken over
// the moment its lease ends, and nobody has to call Lock for that. Processes that
// wait for one lease's end do not all call at once: the one nearest to the head is
// first, the others are spread behind it. When nobody waits and nothing is renewed,
// no goroutine is left.
//
// A grant through the queue has a short lease at first, the claim window of 3
// seconds or Expiration if that is less: should its process have died, the
// permit is back soon. Lock extends it to Expiration before it returns. A Permit
// has it extended by the next tend, unless it is released before. A consumer fetches
// its job, which extends the lease as well.
//
// # Invariants
//
// After every step:
//
//  1. free + held = capacity, where held is counted over unended and not yet
//     reclaimed leases; no permit is in two places. (After a reduction of the
//     capacity, held may be above it until permits come back.)
//  2. Every token that holds has a lease, and every lease a token; no token is
//     both queued and holding.
//  3. Grants follow tickets: a permit goes to nobody while one with a lower ticket,
//     whose process is alive, waits.
//  4. Tickets and fences are one sequence, max(last + 1, server time in µs), and so
//     increase even if the keys were lost.
//  5. Every key has a life that outlives every lease and every waiter; of a queue,
//     every job too.
//  6. Every job is either ready or held by one token, and jobs are granted in the
//     order of their ids, the numbers that their Signal gave them.
//
// # Clocks
//
// Only the server's clock decides, and only inside the steps. To know how long it
// may trust a lease, a process notes on its monotonic clock when it sent a step (s),
// and the server's time in the answer (t): a lease that ends at server time e has
// ended by s + (e - t), whatever was delayed where. What a process believes to hold
// ends then, if it has not been extended. The clocks of two machines are never
// compared.
//
// # Cancellation
//
// Under the lock of its hub a waiter is either delivered to or abandoned, never
// both. An abandoned waiter's leave takes it out of the queue or, if it was granted
// meanwhile, gives the permit to the next, in one step; a leave that could not be
// sent is repeated with the next tends. A grant that comes for a waiter that is
// gone is ignored, never released on suspicion: its token may be in use.
//
// # Limits
//
// A lease is a promise in time: a process that is paused for longer than its lease
// learns of the loss when it wakes, not before, and Redis replicates
// asynchronously, so that a fail-over may forget the last grants. Where that would
// do harm, hand Permit.Fence to the store that is written to, and have the store
// refuse lower numbers than it has seen. The clock of the process has to run on
// while it sleeps: a machine that is suspended, or a virtual machine that is
// snapshot and resumed, may believe in its leases for too long. The clock of the
// server must not jump; if it does, leases are shorter or longer by the jump.
//
// The idea of handing grants out inside Redis rather than racing for them is that of
// a fair ticket lock; counting permits in a list waited on with BLPOP goes back to
// the redis-semaphore libraries for Ruby and Go; leases, fences and their
// limits are discussed by Martin Kleppmann, "How to do distributed locking" (2016).
package semaphore

package semaphore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/logger"
	"github.com/redsem/redsem/redisadapter"
)

// engine is what semaphores and queues have in common: it obtains permits, keeps
// them and gives them back. Of a queue, a permit is a job that a consumer works on.
type engine struct {
	key      string
	settings Settings
	log      logging
	base     protocol.Steps // without a client id
	spare    *hub           // the hub of this handle, unless another is live for its key
	warned   atomic.Bool
}

// newEngine checks what the constructors have in common; invalid is what was
// wrong with the settings.
func newEngine(kind protocol.Kind, key string, client redisadapter.Redis, log logger.Logger, set Settings, invalid error) (*engine, error) {
	if key == "" {
		return nil, invalidArgument("new", key, "the binding key is empty, must be at least one byte")
	}
	if isNil(client) {
		return nil, invalidArgument("new", key, "the client is nil, must be a redisadapter.Redis")
	}
	if invalid != nil {
		return nil, invalid
	}
	e := &engine{key: key, settings: set, log: newLogging(log)}
	e.base = protocol.Steps{
		Kind:     kind,
		Client:   client,
		Keys:     protocol.NewKeys(kind, key),
		Capacity: set.MaxParallelResources,
		Lease:    set.Expiration,
	}
	e.spare = newHub(newHubKey(kind, key, client, e), e.base, e.log)
	return e, nil
}

func (e *engine) status(ctx context.Context, op, token string) (free int, held bool, err error) {
	var available, capacity int64
	for more := true; more; {
		err = e.ask(ctx, op, func(ctx context.Context, steps protocol.Steps) (h protocol.Header, err error) {
			h, available, capacity, held, err = steps.Status(ctx, token)
			more = h.More
			return h, err
		})
		if err != nil {
			return 0, false, err
		}
	}
	e.compare(capacity)
	return int(available), held, nil
}

// giving is what is given back.
type giving struct {
	op, token string
	heldUntil time.Time     // a local time before which the lease can't have ended, zero if not known
	done      bool          // of a job: it shall not be delivered again
	patience  time.Duration // for how long it is sent again
}

// release sends a release until it is answered, even if ctx has ended. Its
// grants for this process come with the answer. A token that holds nothing before
// heldUntil was released by an attempt whose answer was lost.
func (e *engine) release(ctx context.Context, g giving) (free int, err error) {
	if g.token == "" {
		return 0, e.emptyToken(g.op)
	}
	h := live.enter(e.spare)
	defer live.exit(h)
	steps := e.steps(h)
	call := uniqueName()
	var header protocol.Header
	var held, lost bool
	var available int64
	err = h.send(context.WithoutCancel(ctx), g.patience, func(ctx context.Context) (err error) {
		if g.done {
			header, held, available, err = steps.Finish(ctx, g.token, call)
		} else {
			header, held, available, err = steps.Release(ctx, g.token, call)
		}
		lost = lost || ambiguous(err)
		return err
	})
	if err != nil {
		return 0, e.fail(g.op, err)
	}
	h.heard(header)
	if !held && !(lost && protocol.Now().Before(g.heldUntil)) {
		failure := &Error{g.op, e.key, ErrNotHeld, nil}
		if log := e.log.at(logger.Info); log != nil {
			log.Log(logger.Info, e.words().notGave, "token", g.token, "error", failure)
		}
		return int(available), failure
	}
	if log := e.log.at(logger.Info); log != nil {
		log.Log(logger.Info, e.words().gave, "token", g.token, "available", available)
	}
	return int(available), nil
}

// refresh answers the new deadline, local time.
func (e *engine) refresh(ctx context.Context, op, token string) (time.Time, error) {
	if token == "" {
		return time.Time{}, e.emptyToken(op)
	}
	h := live.enter(e.spare)
	defer live.exit(h)
	steps := e.steps(h)
	var header protocol.Header
	var ends []int64
	err := h.send(ctx, givePatience, func(ctx context.Context) (err error) {
		header, ends, err = steps.Renew(ctx, []protocol.Renewal{{Token: token, Lease: e.settings.Expiration}})
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return time.Time{}, contextError(ctx, op, e.key)
		}
		return time.Time{}, e.fail(op, err)
	}
	h.heard(header)
	deadline := header.Deadline(ends[0])
	if ends[0] == 0 || !protocol.Now().Before(deadline) {
		return time.Time{}, &Error{op, e.key, ErrNotHeld, nil}
	}
	if log := e.log.at(logger.Debug); log != nil {
		log.Log(logger.Debug, "refreshed", "token", token)
	}
	return deadline, nil
}

// steps are those of a hub, with the settings of this handle.
func (e *engine) steps(h *hub) protocol.Steps {
	steps := e.base
	steps.Process = h.process()
	return steps
}

// compare logs, once, that the capacity of the live semaphore is another than the
// settings say.
func (e *engine) compare(capacity int64) {
	if e.base.Kind == protocol.Queue || capacity == int64(e.settings.MaxParallelResources) || e.warned.Swap(true) {
		return
	}
	if log := e.log.at(logger.Error); log != nil {
		log.Log(logger.Error, "the semaphore exists with another capacity, which counts",
			"capacity", capacity, "settings", e.settings.MaxParallelResources)
	}
}

func (e *engine) fail(op string, err error) error {
	failure := redisError(op, e.key, err)
	if log := e.log.at(logger.Debug); log != nil {
		log.Log(logger.Debug, op+" failed", "error", failure)
	}
	return failure
}

func (e *engine) emptyToken(op string) error {
	return invalidArgument(op, e.key, "the token is empty, must be one that Lock returned")
}

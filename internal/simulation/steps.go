package simulation

import (
	"context"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/redisadapter"
)

// step is one of the protocol.
type step struct {
	name   string
	script *redisadapter.Script
}

// steps finds out which script each step sends.
func steps() (all []step) {
	ctx := context.Background()
	for _, kind := range []protocol.Kind{protocol.Semaphore, protocol.Queue} {
		r := &recorder{}
		s := protocol.Steps{Kind: kind, Client: r, Keys: protocol.NewKeys(kind, "k")}
		note := func(name string, send func()) {
			send()
			all = append(all, step{name, r.last})
		}
		note("acquire", func() { s.Acquire(ctx, protocol.Waiter{}, true, 0, false) })
		note("release", func() { s.Release(ctx, "", "") })
		note("renew", func() { s.Renew(ctx, nil) })
		note("tend", func() { s.Tend(ctx, protocol.Tending{}) })
		note("leave", func() { s.Leave(ctx, nil) })
		note("status", func() { s.Status(ctx, "") })
		note("reclaim", func() { s.Reclaim(ctx) })
		note("inspect", func() { s.Inspect(ctx, 1) })
		note("delete", func() { s.Delete(ctx, protocol.Call{}) })
		if kind == protocol.Queue {
			note("signal", func() { s.Signal(ctx, protocol.Call{}, 0, nil) })
			note("fetch", func() { s.Fetch(ctx, "", 0) })
		} else {
			note("resize", func() { s.Resize(ctx, protocol.Call{}, 1, false) })
		}
	}
	return all
}

// Scripts are those of all steps, as they are sent.
func Scripts() (all []*redisadapter.Script) {
	for _, step := range steps() {
		all = append(all, step.script)
	}
	return all
}

// stepNames tells the steps by the SHA of their scripts.
func stepNames() map[string]string {
	names := make(map[string]string)
	for _, step := range steps() {
		names[step.script.SHA()] = step.name
	}
	return names
}

// recorder notes the script that it is asked to run.
type recorder struct {
	redisadapter.Redis
	last *redisadapter.Script
}

func (r *recorder) Eval(_ context.Context, script *redisadapter.Script, _, _ []string) (any, error) {
	r.last = script
	return nil, errRefused
}

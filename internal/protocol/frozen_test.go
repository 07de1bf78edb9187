package protocol

import (
	"context"
	"fmt"

	"github.com/redsem/redsem/redisadapter"
)

// frozen is a client for which the clock of the server stands still; the lives
// of keys go on by the true one.
type frozen struct {
	redisadapter.Redis
	ms int64
}

// at makes the fixture see a server whose clock shows so many ms.
func (f *fixture) at(ms int64) { f.Client = frozen{client, ms} }

// frozenClock goes before a step: it answers TIME itself.
const frozenClock = `
local true_redis = redis
local redis = setmetatable({call = function(command, ...)
  if command == 'TIME' then
    return {'%d', '%d'}
  end
  return true_redis.call(command, ...)
end}, {__index = true_redis})
`

func (f frozen) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	if cover, ok := f.Redis.(coverClient); ok {
		script = cover.instrumented(script)
	}
	clock := fmt.Sprintf(frozenClock, f.ms/1000, f.ms%1000*1000)
	return f.Redis.Eval(ctx, redisadapter.NewScript(clock+script.Source()), keys, args)
}

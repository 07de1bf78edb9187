package protocol

import (
	"context"
	"sync"

	"github.com/redsem/redsem/redisadapter"
)

// frozen is a client for which the clock of the server shows what the key
// clock:NAME says; the lives of keys go on by the true one.
type frozen struct{ redisadapter.Redis }

// at makes the fixture see a server whose clock shows so many ms.
func (f *fixture) at(ms int64) {
	f.t.Helper()
	f.do("SET", f.clockKey(), ms, "EX", 600)
	if _, ok := f.Client.(frozen); !ok {
		f.Client = frozen{f.Client}
	}
}

func (f *fixture) clockKey() string { return "clock:" + f.Keys.Name() }

// frozenClock goes before a step: it answers TIME itself.
const frozenClock = `
local true_redis = redis
local redis = setmetatable({call = function(command, ...)
  if command == 'TIME' then
    local ms = tonumber(true_redis.call('GET', 'clock:' .. KEYS[1]))
    return {string.format('%.0f', math.floor(ms / 1000)), string.format('%.0f', ms % 1000 * 1000)}
  end
  return true_redis.call(command, ...)
end}, {__index = true_redis})
`

func (f frozen) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	if cover, ok := f.Redis.(coverClient); ok {
		script = cover.instrumented(script)
	}
	copied, _ := frozenScripts.LoadOrStore(script.SHA(), redisadapter.NewScript(frozenClock+script.Source()))
	return f.Redis.Eval(ctx, copied.(*redisadapter.Script), keys, args)
}

var frozenScripts sync.Map // by the SHA of the original

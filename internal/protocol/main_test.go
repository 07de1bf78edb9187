package protocol

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/redsem/redsem/internal/mutation"
	"github.com/redsem/redsem/internal/redistest"
	"github.com/redsem/redsem/redisadapter"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// The server that the tests share, each with a key of its own, and the client
// through which the steps go.
var (
	server *redistest.Server
	pool   *redis.Pool
	client redisadapter.Redis
)

// A line of the Lua and what to run in its place, to see whether the tests notice.
var (
	mutantOld = flag.String("mutant.old", "", "a line of the Lua steps")
	mutantNew = flag.String("mutant.new", "", "the line that is run in its place")
)

var luaCover = flag.Bool("luacover", false, "fail if a line of the Lua steps is never run")

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.steps", "60"); err != nil { // unless the command line says otherwise
		panic(err)
	}
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if server, err = redistest.New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pool = redistest.NewPool(server.Addr, 0)
	client = redigoadapter.New(pool)
	if *luaCover {
		client = newCoverClient(client)
	}
	if *mutantOld != "" {
		client = mutated{client, mutation.Mutant{Old: *mutantOld, New: *mutantNew}.Rewriter()}
	}
	code := m.Run()
	err = pool.Close()
	if *luaCover {
		err = errors.Join(err, reportLuaCover(server.Path("log")))
	}
	server.Close()
	if err = errors.Join(err, goleak.Find()); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// mutated runs faulty copies of the scripts.
type mutated struct {
	redisadapter.Redis
	rewrite func(*redisadapter.Script) *redisadapter.Script
}

func (m mutated) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	return m.Redis.Eval(ctx, m.rewrite(script), keys, args)
}

package protocol

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/redsem/redsem/redisadapter"
)

// coverClient runs instrumented copies of the steps: each statement first names
// its line in the log of the server.
type coverClient struct {
	redisadapter.Redis
	copies map[string]*redisadapter.Script // by the SHA of the original
}

func newCoverClient(inner redisadapter.Redis) coverClient {
	copies := make(map[string]*redisadapter.Script)
	for step, script := range allScripts() {
		var b strings.Builder
		instrument(&b, step.kind, step.file, func(string) {})
		copies[script.SHA()] = redisadapter.NewScript(b.String())
	}
	return coverClient{inner, copies}
}

func (c coverClient) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	return c.Redis.Eval(ctx, c.instrumented(script), keys, args)
}

func (c coverClient) instrumented(script *redisadapter.Script) *redisadapter.Script {
	if instrumented, ok := c.copies[script.SHA()]; ok {
		return instrumented
	}
	return script
}

// statement matches a line that begins a statement, after one that ended one.
var (
	statement = regexp.MustCompile(`^\s*(local|return|if|for|redis\.call|redis\.pcall|table\.|[a-z_]+(\[|\(|, | =))`)
	unended   = regexp.MustCompile(`(=|,|\(|\{|\band|\bor)\s*$`)
)

// instrument composes a step as load does, with a mark before every statement;
// it tells the marks to seen.
func instrument(b *strings.Builder, kind Kind, file string, seen func(mark string)) {
	name, text := source(kind, file)
	open := false // the line before has not ended its statement
	number := 0
	for line := range strings.Lines(text) {
		number++
		if included, ok := strings.CutPrefix(line, "--@include "); ok {
			instrument(b, kind, strings.TrimSpace(included), seen)
			continue
		}
		code, _, _ := strings.Cut(line, " -- ")
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		if !open && statement.MatchString(code) {
			mark := fmt.Sprintf("%s:%d", name, number)
			seen(mark)
			fmt.Fprintf(b, "redis.log(redis.LOG_NOTICE, 'cover %s') ", mark)
		}
		b.WriteString(code + "\n")
		open = unended.MatchString(strings.TrimSpace(code))
	}
}

// reportLuaCover fails with the statements that the log does not name.
func reportLuaCover(log string) error {
	missing := make(map[string]bool)
	for step := range allScripts() {
		instrument(&strings.Builder{}, step.kind, step.file, func(mark string) { missing[mark] = true })
	}
	total := len(missing)
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if _, mark, ok := strings.Cut(lines.Text(), " cover "); ok {
			delete(missing, mark)
		}
	}
	fmt.Printf("Lua: %d of %d statements run\n", total-len(missing), total)
	if len(missing) > 0 {
		return fmt.Errorf("never run: %v", slices.Sorted(maps.Keys(missing)))
	}
	return lines.Err()
}

// step names a script.
type step struct {
	kind Kind
	file string
}

func allScripts() map[step]*redisadapter.Script {
	all := make(map[step]*redisadapter.Script)
	for kind, s := range scripts {
		for file, script := range map[string]*redisadapter.Script{
			"acquire": s.acquire,
			"release": s.release,
			"renew":   s.renew,
			"tend":    s.tend,
			"leave":   s.leave,
			"status":  s.status,
			"reclaim": s.reclaim,
			"inspect": s.inspect,
			"delete":  s.remove,
			"resize":  s.resize,
			"signal":  s.signal,
			"fetch":   s.fetch,
		} {
			if script != nil {
				all[step{Kind(kind), file}] = script
			}
		}
	}
	return all
}

package protocol

import (
	"embed"
	"strings"

	"github.com/redsem/redsem/redisadapter"
)

//go:embed lua/*.lua
var sources embed.FS

// The steps. Each is one script, and changes the state in one go or not at all.
var (
	acquireScript = load("acquire")
	releaseScript = load("release")
	renewScript   = load("renew")
	tendScript    = load("tend")
	leaveScript   = load("leave")
	statusScript  = load("status")
)

// load makes the script of a step: its file, with the files that it includes
// in place. Comments are left out of what is sent.
func load(step string) *redisadapter.Script {
	return redisadapter.NewScript(compose(step))
}

func compose(file string) string {
	text, err := sources.ReadFile("lua/" + file + ".lua")
	if err != nil {
		panic(err) // the file is embedded: it is there or the build is broken
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if included, ok := strings.CutPrefix(line, "--@include "); ok {
			b.WriteString(compose(strings.TrimSpace(included)))
			continue
		}
		if code := strings.TrimSpace(line); code == "" || strings.HasPrefix(code, "--") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

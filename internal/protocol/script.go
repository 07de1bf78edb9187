package protocol

import (
	"embed"
	"io/fs"
	"path"
	"strings"

	"github.com/redsem/redsem/redisadapter"
)

//go:embed lua
var sources embed.FS

// Kind is what keys are used for.
type Kind int

// The kinds. Those keys of the two that have the same names exclude each other.
const (
	Semaphore Kind = iota
	Queue
)

// folder has what is special to a kind.
func (k Kind) folder() string { return [...]string{"semaphore", "queue"}[k] }

// Format is the content of the version key.
func (k Kind) Format() string { return [...]string{Version, Version + "-queue"}[k] }

// steps are the scripts of a kind. Each changes the state in one go or not at all.
type steps struct {
	acquire, release, renew, tend, leave, status, reclaim, inspect, remove *redisadapter.Script

	resize        *redisadapter.Script // of a semaphore
	signal, fetch *redisadapter.Script // of a queue
}

var scripts = [...]steps{Semaphore: load(Semaphore), Queue: load(Queue)}

func load(kind Kind) steps {
	script := func(step string) *redisadapter.Script {
		return redisadapter.NewScript(compose(kind, step))
	}
	s := steps{
		acquire: script("acquire"),
		release: script("release"),
		renew:   script("renew"),
		tend:    script("tend"),
		leave:   script("leave"),
		status:  script("status"),
		reclaim: script("reclaim"),
		inspect: script("inspect"),
		remove:  script("delete"),
	}
	switch kind {
	case Semaphore:
		s.resize = script("resize")
	case Queue:
		s.signal, s.fetch = script("signal"), script("fetch")
	}
	return s
}

// source reads a file of Lua: that of the kind, if it has one of its own.
func source(kind Kind, file string) (name, text string) {
	for _, name := range []string{path.Join("lua", kind.folder(), file+".lua"), path.Join("lua", file+".lua")} {
		if text, err := fs.ReadFile(sources, name); err == nil {
			return name, string(text)
		}
	}
	panic("no Lua file " + file) // the files are embedded: it is there or the build is broken
}

// compose makes the text of a step: its file, with the files that it includes
// in place. Comments are left out of what is sent.
func compose(kind Kind, file string) string {
	_, text := source(kind, file)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if included, ok := strings.CutPrefix(line, "--@include "); ok {
			b.WriteString(compose(kind, strings.TrimSpace(included)))
			continue
		}
		if code := strings.TrimSpace(line); code == "" || strings.HasPrefix(code, "--") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

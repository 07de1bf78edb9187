package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// board draws which jobs are in memory, a letter for each 2 MiB.
type board struct {
	begun time.Time

	mu     sync.Mutex
	out    io.Writer // guarded by mu
	inside []job     // guarded by mu
	grants []grant   // guarded by mu
	most   int       // MiB; guarded by mu
}

type grant struct {
	fence int64
	name  string
}

func newBoard(out io.Writer) *board { return &board{begun: time.Now(), out: out} }

// takes is called after a job has got its memory, and leaves before it gives it back: so
// what the board adds up is never above what is held.
func (b *board) takes(j job, fence int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside = append(b.inside, j)
	b.grants = append(b.grants, grant{fence, j.name})
	b.draw(fmt.Sprintf("%s takes %d", j.name, j.size))
}

func (b *board) leaves(j job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside = slices.DeleteFunc(b.inside, func(other job) bool { return other == j })
	b.draw(fmt.Sprintf("%s is done", j.name))
}

// draw is called with mu held.
func (b *board) draw(what string) {
	used := 0
	var bar strings.Builder
	for _, j := range b.inside {
		used += j.size
		bar.WriteString(strings.Repeat(j.name, j.size/2))
	}
	b.most = max(b.most, used)
	bar.WriteString(strings.Repeat("·", max(0, total-used)/2))
	fmt.Fprintf(b.out, "%3.1f s  %-10s  %s %3d MiB\n", time.Since(b.begun).Seconds(), what, bar.String(), used)
}

func (b *board) say(text string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, text+"\n", args...)
}

// order names the jobs in the order in which Redis granted their memory.
func (b *board) order() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortFunc(b.grants, func(x, y grant) int { return cmp.Compare(x.fence, y.fence) })
	var names []string
	for _, g := range b.grants {
		names = append(names, g.name)
	}
	return strings.Join(names, " ")
}

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// width is that of everything that the demo prints.
const width = 80

// Colours, as parameters of the terminal's "set graphics rendition".
const (
	bold  = "1"
	faint = "2"
	red   = "1;31"
	green = "32"
)

// palette has a colour for each worker.
var palette = []string{"36", "33", "35", "34", "32"}

// screen prints lines and, below them, one that changes.
type screen struct {
	out      io.Writer
	failed   func() // is called when nobody reads what is written; may be nil
	terminal bool   // so the line can change in place
	colour   bool

	shown     bool      // the changing line stands there
	refreshed time.Time // when it changed last
}

func newScreen(file *os.File) *screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	if runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == "" {
		terminal = false // older consoles do not know the sequences
	}
	return &screen{out: file, terminal: terminal, colour: terminal && os.Getenv("NO_COLOR") == "", refreshed: time.Now()}
}

// line prints a line that stays.
func (s *screen) line(format string, args ...any) {
	s.clear()
	s.print(fmt.Sprintf(format+"\n", args...))
}

// status shows the line that changes; where lines can't, once in a while.
func (s *screen) status(text string) {
	if runes := []rune(text); len(runes) >= width {
		text = string(runes[:width-1]) // a terminal could not take a second line back
	}
	if s.terminal {
		s.print("\r" + text + "\x1b[K")
		s.shown = true
		return
	}
	if time.Since(s.refreshed) >= time.Second {
		s.refreshed = time.Now()
		s.print(text + "\n")
	}
}

// clear removes the line that changes.
func (s *screen) clear() {
	if s.shown {
		s.print("\r\x1b[K")
		s.shown = false
	}
}

func (s *screen) print(text string) {
	if _, err := io.WriteString(s.out, text); err != nil && s.failed != nil {
		s.failed()
	}
}

// paint gives a text a colour, if there are colours.
func (s *screen) paint(colour, text string) string {
	if !s.colour || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

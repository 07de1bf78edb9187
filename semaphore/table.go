package semaphore

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// table writes what a snapshot lists, in columns.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(columns ...string) {
	fmt.Fprintf(t, "  %s\n", strings.Join(columns, "\t"))
}

// more says how many the snapshot does not list.
func (t table) more(n int, what string) {
	if n > 0 {
		t.row(fmt.Sprintf("and %d more %s", n, what))
	}
}

// waiters has a row for each; wants says what it waits for.
func (t table) waiters(now time.Time, list []Waiter, wants func(Waiter) string) {
	for _, w := range list {
		columns := []string{strconv.Itoa(w.Position) + ".", visible(w.Owner), wants(w), "for " + brief(now.Sub(w.Since))}
		if !w.Alive {
			columns = append(columns, "no sign of life")
		}
		t.row(columns...)
	}
}

func permits(n int) string { return counted(n, "permit") }

// counted writes a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

func brief(d time.Duration) string { return max(d, 0).Round(100 * time.Millisecond).String() }

// visible is a text from Redis as it may be shown: quoted if it could disturb a
// terminal.
func visible(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return strconv.Quote(text)
		}
	}
	return text
}

// Package mutation makes faulty copies of the Lua scripts, each with one line changed,
// to see whether the tests notice.
package mutation

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/gopher-lua/parse"

	"github.com/redsem/redsem/redisadapter"
)

// Mutant is one change: wherever a line stands, another stands in its place.
type Mutant struct{ Old, New string }

// Removal says that a statement is left out, or a condition always or never so: no
// operator is another one.
func (m Mutant) Removal() bool {
	code, _, _ := strings.Cut(m.New, " --")
	return strings.TrimSpace(code) == "" || strings.HasSuffix(code, " 1 == 1 then") || strings.HasSuffix(code, " 1 == 2 then")
}

// String shows both lines.
func (m Mutant) String() string { return fmt.Sprintf("%q => %q", m.Old, m.New) }

// Apply gives the faulty copy of a script, or the script itself if it has not the line.
func (m Mutant) Apply(script *redisadapter.Script) *redisadapter.Script {
	if text, ok := m.in(script.Source()); ok {
		return redisadapter.NewScript(text)
	}
	return script
}

// Rewriter is Apply that makes each copy once. It may be used by many goroutines at once.
func (m Mutant) Rewriter() func(*redisadapter.Script) *redisadapter.Script {
	var made sync.Map
	return func(script *redisadapter.Script) *redisadapter.Script {
		if faulty, ok := made.Load(script); ok {
			return faulty.(*redisadapter.Script)
		}
		faulty, _ := made.LoadOrStore(script, m.Apply(script))
		return faulty.(*redisadapter.Script)
	}
}

func (m Mutant) in(source string) (text string, found bool) {
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == m.Old {
			lines[i], found = m.New, true
		}
	}
	return strings.Join(lines, "\n"), found
}

var (
	condition = regexp.MustCompile(`^(if|elseif) .* then$`)
	statement = regexp.MustCompile(`^(redis\.p?call\(|table\.|[a-zA-Z_]+\(|[a-zA-Z_\[\], #+0-9]+ = |local [a-z_, ]+ = )`)
)

// swaps are what may stand for what, at one place of a line.
var swaps = []struct{ old, new string }{
	{" <= ", " < "}, {" < ", " <= "}, {" >= ", " > "}, {" > ", " >= "}, {" == ", " ~= "}, {" ~= ", " == "},
	{" and ", " or "}, {" or ", " and "}, {" + ", " - "}, {" - ", " + "}, {" * ", " + "}, {"not ", ""},
	{"math.max", "math.min"}, {"math.min", "math.max"},
}

// Of makes the mutants of scripts: without a statement; with a condition that is always
// or never so; with another operator. Those that don't compile are left out.
func Of(scripts ...*redisadapter.Script) []Mutant {
	var all []Mutant
	seen := make(map[Mutant]bool)
	for _, script := range scripts {
		for line := range strings.Lines(script.Source()) {
			line = strings.TrimSpace(line)
			code, comment, commented := strings.Cut(line, " --")
			for _, other := range others(strings.TrimSpace(code)) {
				if commented {
					other += " --" + comment
				}
				m := Mutant{line, other}
				if !seen[m] {
					seen[m] = true
					if m.compiles(scripts) {
						all = append(all, m)
					}
				}
			}
		}
	}
	return all
}

// others are the lines that may stand in the place of one.
func others(line string) []string {
	var lines []string
	if c := condition.FindStringSubmatch(line); c != nil {
		lines = append(lines, c[1]+" 1 == 1 then", c[1]+" 1 == 2 then")
	}
	if statement.MatchString(line) && !strings.HasPrefix(line, "local ") {
		lines = append(lines, "")
	}
	for _, swap := range swaps {
		for at := 0; ; {
			found := strings.Index(line[at:], swap.old)
			if found < 0 {
				break
			}
			at += found
			lines = append(lines, line[:at]+swap.new+line[at+len(swap.old):])
			at += len(swap.old)
		}
	}
	return lines
}

func (m Mutant) compiles(scripts []*redisadapter.Script) bool {
	for _, script := range scripts {
		if text, found := m.in(script.Source()); found {
			if _, err := parse.Parse(strings.NewReader(text), ""); err != nil {
				return false
			}
		}
	}
	return true
}

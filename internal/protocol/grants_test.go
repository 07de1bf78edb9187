package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseGrants_ReadsOneALine(t *testing.T) {
	for _, c := range []struct {
		name, message string
		want          []Grant
	}{
		{"nothing", "", nil},
		{"one", "a 1 2\n", []Grant{{"a", 1, 2}}},
		{"several", "a 1 2\nb 3 4\nc 5 6\n", []Grant{{"a", 1, 2}, {"b", 3, 4}, {"c", 5, 6}}},
		{"the last line unended", "a 1 2\nb 3 4", []Grant{{"a", 1, 2}, {"b", 3, 4}}},
		{"greatest numbers", "a 9223372036854775807 9007199254740992\n", []Grant{{"a", 9223372036854775807, 9007199254740992}}},
		{"foreign lines", "junk\na 1 2\n\n \nb x 4\nc 3\nd 1 2 3\n 5 6\ne 1 2\n", []Grant{{"a", 1, 2}, {"e", 1, 2}}},
		{"numbers that are none", "a 1.5 2\nb 1 1e3\nc 99999999999999999999 1\nd 1 2 \n", nil},
		{"other ends of lines", "a 1 2\r\nb 1 2\n", []Grant{{"b", 1, 2}}},
		{"bytes", "\xff\x00 1 2\n", []Grant{{"\xff\x00", 1, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ParseGrants(c.message)
			assert.ElementsMatch(t, c.want, got)
			assert.Len(t, got, len(c.want))
		})
	}
}

func FuzzParseGrants(f *testing.F) {
	for _, message := range []string{"", "\n", "a 1 2\n", "a 1 2\nb 3 4\n", "a 1 2", "junk\na 1 2\n", "a -1 +2\n", "  \n"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		grants := ParseGrants(message)
		if len(grants) > strings.Count(message, "\n")+1 {
			t.Fatal("more grants than lines")
		}
		var again strings.Builder
		for _, g := range grants {
			if g.Token == "" || strings.ContainsAny(g.Token, " \n") {
				t.Fatalf("token %q", g.Token)
			}
			if !strings.Contains(message, g.Token+" ") {
				t.Fatalf("token %q is none of the message's", g.Token)
			}
			fmt.Fprintf(&again, "%s %d %d\n", g.Token, g.Fence, g.End)
		}
		if len(grants) > 0 {
			assert.Equal(t, grants, ParseGrants(again.String()), "written and read again")
		}
	})
}

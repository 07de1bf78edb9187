package redsem_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unindent drops what Markdown and Go may write differently.
func unindent(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func TestReadmeShowsOnlyCodeThatCompiles(t *testing.T) {
	var compiled strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			var text []byte
			text, err = os.ReadFile(path)
			compiled.WriteString(unindent(string(text)) + "\n")
		}
		return err
	})
	require.NoError(t, err)
	for _, page := range []string{"README.md", "docs/security.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks)
		for _, block := range blocks {
			require.True(t, strings.Contains(compiled.String(), unindent(block[1])), "not compiled:\n%s", block[1])
		}
	}
}

func TestReadmeLinksToFilesThatExist(t *testing.T) {
	for _, page := range []string{"README.md", "docs/protocol.md", "docs/parity.md", "docs/security.md", "docs/reliability.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), link[1]))
			require.NoError(t, err, "%s links to %s", page, link[1])
		}
	}
}

func TestPagesNameTestsThatExist(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var text []byte
			text, err = os.ReadFile(path)
			tests.Write(text)
		}
		return err
	})
	require.NoError(t, err)
	parity, err := os.ReadFile("docs/parity.md")
	require.NoError(t, err)
	reliability, err := os.ReadFile("docs/reliability.md")
	require.NoError(t, err)
	for _, name := range regexp.MustCompile("`(Test[^`]+)`").FindAllStringSubmatch(string(parity)+string(reliability), -1) {
		function := "func " + strings.TrimSuffix(name[1], "…")
		if !strings.HasSuffix(name[1], "…") {
			function += "("
		}
		require.True(t, strings.Contains(tests.String(), function), name[1])
	}
}

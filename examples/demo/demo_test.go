package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// roleDemo makes the test binary, which runs itself again, the demo.
const roleDemo = "demo"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleWorker:
		os.Exit(workerMain())
	case roleDemo:
		os.Exit(demoMain())
	}
	goleak.VerifyTestMain(m)
}

// process is the demo as a process.
type process struct {
	*exec.Cmd
	folder string // for its temporary files
	stdout io.Closer
	output *bufio.Reader // its standard output
	gone   <-chan string // gets its standard error when it and its workers have ended
}

// start runs the demo, with a Redis or, if the URL is empty, without.
func start(t *testing.T, redisURL string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), folder: t.TempDir()}
	p.Env = append(os.Environ(), roleVariable+"="+roleDemo, "REDIS_URL="+redisURL)
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // Unix, Windows
		p.Env = append(p.Env, name+"="+p.folder)
	}
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	p.stdout, p.output = stdout, bufio.NewReader(stdout)
	// The workers inherit this pipe, so it ends when the last of them is gone.
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p.Stderr = write
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	write.Close()
	gone := make(chan string, 1)
	go func() { // ends with the processes
		text, _ := io.ReadAll(read)
		read.Close()
		gone <- string(text)
	}()
	p.gone = gone
	return p
}

// until reads lines until one matches.
func (p *process) until(t *testing.T, pattern string) {
	t.Helper()
	for {
		line, err := p.output.ReadString('\n')
		require.NoError(t, err, "no line matches %s", pattern)
		if regexp.MustCompile(pattern).MatchString(line) {
			return
		}
	}
}

// end waits until the process has ended, and answers its exit code and the rest of
// its output.
func (p *process) end(t *testing.T) (code int, rest string) {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = p.Process.Kill() })
	defer timer.Stop()
	text, err := io.ReadAll(p.output)
	require.NoError(t, err)
	var failure *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &failure) {
		require.NoError(t, err)
	}
	return p.ProcessState.ExitCode(), string(text)
}

// requireGone waits until no worker is left, and none has complained.
func (p *process) requireGone(t *testing.T) {
	t.Helper()
	select {
	case text := <-p.gone:
		require.Empty(t, text, "standard error")
	case <-time.After(patience):
		require.Fail(t, "a worker is left")
	}
}

func (p *process) requireNoFiles(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	require.Empty(t, left, "temporary files are left")
}

// The demo passes its own checks, fits the terminal, and leaves nothing behind.
func TestDemo(t *testing.T) {
	p := start(t, "")
	code, output := p.end(t)
	t.Log("\n" + output)
	require.Equal(t, 0, code)
	p.requireGone(t)
	p.requireNoFiles(t)
	requireVerdicts(t, output)
	for line := range strings.Lines(output) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
	}
}

func requireVerdicts(t *testing.T, output string) {
	t.Helper()
	require.Equal(t, 5, strings.Count(output, "\n✓ "))
	require.Contains(t, output, "✓ never more than 2 inside")
	require.Contains(t, output, "✓ nothing lost: 40 packages")
	require.Regexp(t, "✓ cedar (died inside: permit back|was killed)", output)
	require.Contains(t, output, "✓ all 2 permits are free again")
	// The tickets come from what the library logs: were they missing, the check of
	// the order would see little.
	order := regexp.MustCompile(`✓ first come, first served: (\d+) grants in the order of arrival, (\d+) after a wait`)
	numbers := order.FindStringSubmatch(output)
	require.NotNil(t, numbers)
	grants, _ := strconv.Atoi(numbers[1])
	waited, _ := strconv.Atoi(numbers[2])
	require.GreaterOrEqual(t, grants, 41, "one for each package, and one that was killed")
	require.Greater(t, waited, grants/2)
}

// Ctrl-C leaves nothing behind, before the victim is killed and while its lease runs on.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process can't be interrupted by another on Windows")
	}
	for name, moment := range map[string]string{
		"at the start":    "^5 processes",
		"in the middle":   "inside: ash|inside: [a-z]+, [a-z]+ ",
		"after the death": "kill -9",
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "")
			p.until(t, moment)
			require.NoError(t, p.Process.Signal(os.Interrupt))
			code, rest := p.end(t)
			require.Equal(t, exitInterrupted, code)
			require.Contains(t, rest, "Interrupted")
			p.requireGone(t)
			p.requireNoFiles(t)
		})
	}
}

// So does a reader that goes away.
func TestReaderGoesAway(t *testing.T) {
	p := start(t, "")
	p.until(t, "inside: [a-z]+")
	p.stdout.Close()
	p.requireGone(t)
	p.requireNoFiles(t)
	require.Error(t, p.Wait())
	require.Equal(t, exitInterrupted, p.ProcessState.ExitCode())
}

// When the parent is killed, which can't tell anybody, the workers end.
func TestWorkersEndWithTheParent(t *testing.T) {
	p := start(t, "")
	p.until(t, "inside: [a-z]+")
	require.NoError(t, p.Process.Kill())
	p.end(t)
	select {
	case <-p.gone:
	case <-time.After(patience):
		require.Fail(t, "a worker is left")
	}
}

func TestUnreachableRedis(t *testing.T) {
	p := start(t, "redis://:secret@127.0.0.1:1")
	code, _ := p.end(t)
	require.Equal(t, 1, code)
	text := <-p.gone
	require.Contains(t, text, "demo: the Redis that is yours, at 127.0.0.1:1:")
	require.NotContains(t, text, "secret")
	p.requireNoFiles(t)
}

// A worker that is told nonsense, or nothing, ends.
func TestWorkerEndsWithoutOrders(t *testing.T) {
	require.ErrorIs(t, serve(bytes.NewReader(nil), io.Discard), io.EOF)
	require.Error(t, serve(strings.NewReader("nonsense"), io.Discard))
}

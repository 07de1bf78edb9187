package crashtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is one in a role, seen from the test.
type process struct {
	Part
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer  // read after ended
	holds  chan struct{} // closed when it says that it holds something
	ended  chan struct{} // closed when it has been waited for
	err    error         // of its end; read after ended
	killed int64         // when it was surely dead, 0 if it was not killed; for who calls kill
}

// crew starts processes and keeps account of them.
type crew struct {
	t   *testing.T
	dir string

	mu        sync.Mutex
	processes []*process // guarded by mu
}

func newCrew(t *testing.T) *crew { return &crew{t: t, dir: t.TempDir()} }

// start runs a process in a role. It is killed with the test, at the latest.
func (c *crew) start(part Part) (*process, error) {
	c.mu.Lock()
	part.Child = len(c.processes) + 1
	part.File = filepath.Join(c.dir, fmt.Sprint(part.Child))
	part.Addr = server.Addr
	p := &process{Part: part, t: c.t, holds: make(chan struct{}), ended: make(chan struct{})}
	c.processes = append(c.processes, p)
	c.mu.Unlock()

	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(worker, string(text))
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		close(p.ended)
		return nil, err
	}
	go func() { // ends with the process
		if bufio.NewScanner(stdout).Scan() {
			close(p.holds)
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	c.t.Cleanup(p.kill)
	return p, nil
}

// mustStart is start for the goroutine of the test.
func (c *crew) mustStart(part Part) *process {
	c.t.Helper()
	p, err := c.start(part)
	require.NoError(c.t, err)
	return p
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	select {
	case <-p.ended:
		return
	default:
	}
	p.cmd.Process.Kill()
	<-p.ended
	p.killed = Clock()
}

// awaitHold waits until the process holds something.
func (p *process) awaitHold() {
	p.t.Helper()
	select {
	case <-p.holds:
	case <-p.ended:
		p.t.Fatalf("%s has ended: %v\n%s", p.Role, p.err, &p.stderr)
	case <-time.After(patience):
		p.t.Fatalf("%s holds nothing", p.Role)
	}
}

// finish closes the process's input and says what is wrong with its end.
func (p *process) finish() error {
	p.stdin.Close()
	select {
	case <-p.ended:
		if p.err != nil || p.stderr.Len() > 0 {
			return fmt.Errorf("process %d, %s of %q: %v\n%s", p.Child, p.Role, p.Key, p.err, &p.stderr)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("process %d, %s of %q, does not end", p.Child, p.Role, p.Key)
	}
}

// lives are the processes that had to do with a key, with their records.
func (c *crew) lives(key string) []life {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var lives []life
	for _, p := range c.processes {
		if p.Key != key {
			continue
		}
		records, err := ReadLog(p.File)
		require.NoError(c.t, err)
		lives = append(lives, life{child: p.Child, role: p.Role, killed: p.killed, records: records})
	}
	return lives
}

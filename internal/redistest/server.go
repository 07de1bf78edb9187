// Package redistest runs private redis-servers for tests.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// startTimeout bounds the start of a server, on a busy machine too.
const startTimeout = 30 * time.Second

// Server is a redis-server of its own, on a port and in a folder of its own.
type Server struct {
	Addr string // 127.0.0.1:PORT

	dir  string
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Start runs a server for one test, with further arguments such as
// "--appendonly", "yes". It ends with the test.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s, err := New(args...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// New runs a server until Close.
func New(args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redsem-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, args: args}
	for range 5 { // somebody else may take the port meanwhile
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = s.run(); err == nil {
			return s, nil
		}
	}
	os.RemoveAll(dir)
	return nil, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("redistest: %w; `make test` installs it", err)
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no"}, s.args...)
	log := s.Path("log")
	args = append(args, "--logfile", log)
	s.cmd = exec.Command(path, args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.done = done
	go func(cmd *exec.Cmd) { // ends with the process
		cmd.Wait()
		close(done)
	}(s.cmd)
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		select {
		case <-s.done:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("redistest: redis-server ended: %s", text)
		case <-time.After(5 * time.Millisecond):
		}
		conn, err := redis.Dial("tcp", s.Addr, redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
		if err != nil {
			continue
		}
		_, loading := conn.Do("PING")
		info, err := redis.String(conn.Do("INFO", "server"))
		conn.Close()
		if loading == nil && err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r", s.cmd.Process.Pid)) { // not another's
			return nil
		}
	}
	s.Kill()
	return errors.New("redistest: redis-server does not answer")
}

// Kill ends the process with SIGKILL, paused or not, and waits until it is gone.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Restart runs the server again, after Kill or Shutdown, on the same address and
// with the data that it has saved.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.run(); err != nil {
		tb.Fatal(err)
	}
}

// Close ends the server and removes its folder.
func (s *Server) Close() {
	s.Kill()
	os.RemoveAll(s.dir)
}

// Path is the path of a file in the server's folder.
func (s *Server) Path(name string) string { return filepath.Join(s.dir, name) }

// Dial connects to the server, for the test to look into it. The connection ends
// with the test.
func (s *Server) Dial(tb testing.TB) redis.Conn {
	tb.Helper()
	conn, err := redis.Dial("tcp", s.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// Pool is a pool of connections to an address, of maxActive at most (0: any
// number), which waits for a free one. It ends with the test.
func Pool(tb testing.TB, addr string, maxActive int) *redis.Pool {
	pool := NewPool(addr, maxActive)
	tb.Cleanup(func() { pool.Close() })
	return pool
}

// NewPool is Pool outside of a test.
func NewPool(addr string, maxActive int) *redis.Pool {
	return &redis.Pool{
		MaxIdle:   64,
		MaxActive: maxActive,
		Wait:      true,
		Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", addr, redis.DialConnectTimeout(5*time.Second))
		},
	}
}

// Commands reads the number of calls of each command from the server's
// commandstats, without those made by scripts: they are in there too, so only
// the names that scripts don't use are to be relied on.
func Commands(tb testing.TB, conn redis.Conn) map[string]int {
	tb.Helper()
	info, err := redis.String(conn.Do("INFO", "commandstats"))
	if err != nil {
		tb.Fatal(err)
	}
	calls := make(map[string]int)
	for line := range strings.Lines(info) {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(stats, ",")
		calls[name], _ = strconv.Atoi(number)
	}
	return calls
}

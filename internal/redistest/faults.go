package redistest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pause stops the process where it stands, with SIGSTOP: its connections stay, new
// ones are still accepted by the system, and nothing is answered.
func (s *Server) Pause(tb testing.TB) { s.signal(tb, syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume(tb testing.TB) { s.signal(tb, syscall.SIGCONT) }

func (s *Server) signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		tb.Fatal(err)
	}
}

// RestartEmpty kills the server, if it runs, and runs it again on the same address,
// without its data.
func (s *Server) RestartEmpty(tb testing.TB) {
	tb.Helper()
	s.Kill()
	files, err := os.ReadDir(s.dir)
	for _, file := range files {
		if err == nil {
			err = os.RemoveAll(s.Path(file.Name()))
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.Restart(tb)
}

// Replica runs a server that follows this one, and waits until it does. It ends with
// the test.
func (s *Server) Replica(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s.do(tb, "CONFIG", "SET", "repl-diskless-sync-delay", 0) // else it may wait for more replicas
	r := Start(tb, args...)
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	r.do(tb, "REPLICAOF", host, port)
	s.AwaitReplica(tb, r)
	return r
}

// AwaitReplica waits until a replica has all that was written so far.
func (s *Server) AwaitReplica(tb testing.TB, r *Server) {
	tb.Helper()
	offset := s.replication(tb)["master_repl_offset"]
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(5 * time.Millisecond) {
		info := r.replication(tb)
		if info["master_link_status"] == "up" && atLeast(info["slave_repl_offset"], offset) {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("redistest: the replica does not follow: %v", info)
		}
	}
}

// atLeast compares two numbers without sign.
func atLeast(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a >= b }

// replication reads what the server says of its replication.
func (s *Server) replication(tb testing.TB) map[string]string {
	tb.Helper()
	text, err := redis.String(s.do(tb, "INFO", "replication"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// Promote makes a replica a primary, with the data that it has: it follows no more.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	s.do(tb, "REPLICAOF", "NO", "ONE")
}

// SetMaxMemory bounds the memory of the server; 0: no bound.
func (s *Server) SetMaxMemory(tb testing.TB, bytes int) {
	tb.Helper()
	s.do(tb, "CONFIG", "SET", "maxmemory", bytes)
}

// Full, with true, makes the server refuse, for lack of memory, all writes that may
// need some; with false, it takes them again.
func (s *Server) Full(tb testing.TB, full bool) {
	tb.Helper()
	if full {
		s.SetMaxMemory(tb, 1)
	} else {
		s.SetMaxMemory(tb, 0)
	}
}

// do sends one command that must succeed, on a connection of its own.
func (s *Server) do(tb testing.TB, command string, args ...any) any {
	tb.Helper()
	conn, err := redis.Dial("tcp", s.Addr, redis.DialConnectTimeout(startTimeout), redis.DialReadTimeout(startTimeout))
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(command, args...)
	if err != nil {
		tb.Fatal(fmt.Errorf("redistest: %s: %w", command, err))
	}
	return reply
}

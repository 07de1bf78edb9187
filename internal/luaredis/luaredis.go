// Package luaredis is a model of Redis for simulations: it runs the real Lua of
// redsem on data in memory, by a clock that the caller gives. It knows the commands
// that the scripts use, and no others; a test compares it with a real server.
package luaredis

import (
	"errors"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/redsem/redsem/redisadapter"
)

// Server is a Redis in memory. It is not for several goroutines at once.
type Server struct {
	// Full makes it refuse, as a server does whose memory is used up, what may
	// need memory: but not once a script has written.
	Full bool

	data  Data
	now   time.Time // of the command or script that runs
	state *lua.LState
	dirty bool // the script that runs has written
	inLua bool
}

// New makes an empty server.
func New() *Server {
	s := &Server{data: make(Data)}
	s.state = newState(s)
	return s
}

// Close frees the interpreter.
func (s *Server) Close() { s.state.Close() }

// Flush removes all keys.
func (s *Server) Flush() { clear(s.data) }

// Delete removes a key, and says whether it was there.
func (s *Server) Delete(key string) bool {
	_, ok := s.data[key]
	delete(s.data, key)
	return ok
}

// Data is what a server had at some moment.
type Data map[string]*value

// Save copies the data, as a replica has them.
func (s *Server) Save() Data {
	saved := make(Data, len(s.data))
	for key, v := range s.data {
		saved[key] = v.copy()
	}
	return saved
}

// Load puts data in place of those that the server has: it fails over.
func (s *Server) Load(saved Data) {
	clear(s.data)
	for key, v := range saved {
		s.data[key] = v.copy()
	}
}

// Keys are the names of the keys that have not expired, in no order.
func (s *Server) Keys(now time.Time) []string {
	s.now = now
	var keys []string
	for key := range s.data {
		if s.lookup(key) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Do runs a command. Its replies are those that redisadapter.Redis has.
func (s *Server) Do(now time.Time, command string, args ...string) (any, error) {
	s.now, s.inLua, s.dirty = now, false, false
	return s.do(command, args)
}

// Eval runs a script.
func (s *Server) Eval(now time.Time, script *redisadapter.Script, keys, args []string) (any, error) {
	s.now, s.inLua, s.dirty = now, true, false
	return s.run(script, keys, args)
}

func refuse(format string, args ...any) error {
	return &redisadapter.ReplyError{Message: fmt.Sprintf(format, args...)}
}

var (
	errWrongType = refuse("WRONGTYPE Operation against a key holding the wrong kind of value")
	errFull      = refuse("OOM command not allowed when used memory > 'maxmemory'.")
	errArguments = errors.New("luaredis: wrong arguments")
)

func (s *Server) do(command string, args []string) (any, error) {
	c, ok := commands[command]
	if !ok {
		return nil, fmt.Errorf("luaredis: the model does not know %s", command)
	}
	if len(args) < c.least {
		return nil, fmt.Errorf("%w of %s: %q", errArguments, command, args)
	}
	if c.grows && s.Full && !s.dirty {
		return nil, errFull
	}
	s.dirty = s.inLua && (s.dirty || c.writes)
	var v *value
	if c.kind != anyKind {
		if v = s.lookup(args[0]); v != nil && v.kind != c.kind {
			return nil, errWrongType
		}
		if v == nil && c.grows {
			v = &value{kind: c.kind}
			s.data[args[0]] = v
		}
		if v == nil {
			v = &value{kind: c.kind} // as if it were empty; not kept
		}
	}
	reply, err := c.run(s, v, args)
	if v != nil && v.empty() && s.data[args[0]] == v {
		delete(s.data, args[0])
	}
	return reply, err
}

// lookup finds a key that has not expired.
func (s *Server) lookup(key string) *value {
	v, ok := s.data[key]
	if !ok {
		return nil
	}
	if v.ends != 0 && s.now.UnixMilli() >= v.ends {
		delete(s.data, key)
		return nil
	}
	return v
}

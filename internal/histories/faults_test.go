package histories

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redsem/redsem/internal/faultproxy"
	"github.com/redsem/redsem/internal/redistest"
)

// faults puts faults between the processes and their server.
type faults struct {
	t       *testing.T
	random  *rand.Rand
	server  *redistest.Server
	control redis.Conn // goes past the proxies
	proxies []*faultproxy.Proxy
	texts   []string // one in each kind of request
	pauses  bool
	count   int
}

func newFaults(t *testing.T, p plan, server *redistest.Server, proxies []*faultproxy.Proxy) *faults {
	control, err := redis.Dial("tcp", server.Addr)
	require.NoError(t, err)
	f := &faults{t: t, random: p.random(0), server: server, control: control, proxies: proxies, texts: []string{"BLPOP"}, pauses: p.pauses}
	for _, step := range steps {
		f.texts = append(f.texts, p.scripts(step).SHA())
	}
	for _, proxy := range proxies {
		if p.hurry {
			proxy.SetDelay(4 * time.Millisecond)
		}
	}
	return f
}

// run makes faults for so long, and leaves none behind, but half-open connections.
func (f *faults) run(d time.Duration) {
	defer f.control.Close()
	for end := time.Now().Add(d); time.Now().Before(end); f.count++ {
		time.Sleep(time.Duration(f.random.IntN(60)) * time.Millisecond)
		f.one(f.proxies[f.random.IntN(len(f.proxies))])
	}
	for _, proxy := range f.proxies {
		proxy.SetDelay(0)
	}
}

// one makes a fault on one link, or on the server.
func (f *faults) one(proxy *faultproxy.Proxy) {
	text := f.texts[f.random.IntN(len(f.texts))]
	switch n := f.random.IntN(100); {
	case n < 12:
		proxy.Cut()
	case n < 42:
		proxy.CutReply(text)
	case n < 60:
		proxy.CutRequest(text)
	case n < 70:
		proxy.Stall(true)
		time.Sleep(time.Duration(f.random.Int64N(int64(longestStall))))
		proxy.Stall(false)
	case n < 72:
		proxy.HalfOpen()
	case n < 74:
		proxy.SilenceReply(text)
	case n < 84:
		proxy.SetDelay(time.Duration(f.random.IntN(15)) * time.Millisecond)
	case n < 90:
		f.do("SCRIPT", "FLUSH")
	case n < 95 || !f.pauses:
		f.do("CLIENT", "KILL", "TYPE", "normal")
	default:
		f.server.Pause(f.t)
		time.Sleep(time.Duration(f.random.Int64N(int64(longestStall))))
		f.server.Resume(f.t)
	}
}

func (f *faults) do(command string, args ...any) {
	_, err := f.control.Do(command, args...)
	require.NoError(f.t, err, fmt.Sprint(command, args))
}

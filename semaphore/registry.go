package semaphore

import (
	"crypto/rand"
	"encoding/hex"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/redisadapter"
)

// registry holds the hubs that are in use: one for each key and client. It is
// the only global state of the package, but for names.
type registry struct {
	mu     sync.Mutex
	hubs   map[hubKey]*hub
	clocks map[hubKey]*protocol.Clock // some are kept for the next hub
}

// mostClocks is how many clocks the registry keeps.
const mostClocks = 1024

// hubKey tells hubs apart. client is the client's identity.
type hubKey struct {
	client any
	kind   protocol.Kind
	key    string
}

var live = registry{hubs: make(map[hubKey]*hub), clocks: make(map[hubKey]*protocol.Clock)}

// clock gives what is known of the clock of a key's server. Those of two keys may
// lie on two servers of a cluster; but mostly, and by the first guess, on one.
func (r *registry) clock(key hubKey) *protocol.Clock {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clockOf(key, r.clockOf(hubKey{client: key.client}, nil))
}

// clockOf finds a clock, or makes one that is like another. The caller holds mu.
func (r *registry) clockOf(key hubKey, like *protocol.Clock) *protocol.Clock {
	clock, ok := r.clocks[key]
	if !ok {
		for old := range r.clocks {
			if len(r.clocks) < mostClocks {
				break
			}
			delete(r.clocks, old) // any: who needs it learns the time again
		}
		clock = &protocol.Clock{Like: like}
		r.clocks[key] = clock
	}
	return clock
}

// enter gives the live hub of a key, for which it registers spare if there is
// none. The caller leaves it with exit.
func (r *registry) enter(spare *hub) *hub {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.hubs[spare.key]
	if !ok {
		h = spare
		r.hubs[h.key] = h
	}
	h.refs++
	return h
}

// hold counts one more user of a hub that has one already.
func (r *registry) hold(h *hub) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.refs++
}

// exit ends the use of a hub. Without users it is forgotten; it may be entered
// again later.
func (r *registry) exit(h *hub) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.refs--
	if h.refs == 0 {
		delete(r.hubs, h.key)
	}
}

// newHubKey identifies the hub of a key and a client. A client whose identity
// can't be compared shares with nobody; unshared stands for it.
func newHubKey(kind protocol.Kind, key string, client redisadapter.Redis, unshared any) hubKey {
	var identity any = client
	if named, ok := client.(redisadapter.Identifier); ok {
		identity = named.Identity()
	}
	if !reflect.ValueOf(identity).Comparable() {
		identity = unshared
	}
	return hubKey{client: identity, kind: kind, key: key}
}

var (
	processName = func() string {
		var random [12]byte
		rand.Read(random[:]) // never fails
		return hex.EncodeToString(random[:])
	}()
	names atomic.Int64
)

// uniqueName makes a name that no other process, and nothing else in this one,
// has: for clients and calls.
func uniqueName() string {
	return processName + "-" + strconv.FormatInt(names.Add(1), 36)
}

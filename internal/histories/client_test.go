package histories

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redsem/redsem/internal/protocol"
	"github.com/redsem/redsem/redisadapter"
)

// script finds the script that a step sends.
func script(send func(s protocol.Steps)) *redisadapter.Script {
	var seen sighting
	send(protocol.Steps{Client: &seen, Keys: protocol.NewKeys(protocol.Semaphore, "k")})
	return seen.script
}

// nobody waits for the answers of steps that are not sent.
var nobody = context.Background()

// The steps of a semaphore that the calls of a history send.
var (
	acquire = script(func(s protocol.Steps) { s.Acquire(nobody, protocol.Waiter{}, true, 0, false) })
	release = script(func(s protocol.Steps) { s.Release(nobody, "", "") })
	renew   = script(func(s protocol.Steps) { s.Renew(nobody, nil) })
	tend    = script(func(s protocol.Steps) { s.Tend(nobody, protocol.Tending{}) })
	leave   = script(func(s protocol.Steps) { s.Leave(nobody, nil) })
	status  = script(func(s protocol.Steps) { s.Status(nobody, "") })

	steps = []*redisadapter.Script{acquire, release, renew, tend, leave, status}
)

// sighting notes the script that it is asked to run.
type sighting struct {
	redisadapter.Redis
	script *redisadapter.Script
}

func (s *sighting) Eval(_ context.Context, script *redisadapter.Script, _, _ []string) (any, error) {
	s.script = script
	return nil, errors.New("not run")
}

// process is the client of one process. It notes what becomes of the tokens that are sent
// with acquires, and may send other scripts than it is asked to.
type process struct {
	redisadapter.Redis
	rewrite func(*redisadapter.Script) *redisadapter.Script
	start   time.Time // of the history
	lease   int64     // each is at least so long

	mu    sync.Mutex
	fates map[string]*fate // by token; guarded by mu
}

// fate is what is known of a token that was sent.
type fate struct {
	taken bool  // it may have been granted, or queued
	lost  bool  // no acquire was answered, and one may come at any time
	over  int64 // when Redis first confirmed that it has left, or said that it got nothing; 0: never
}

// attemptKey is the key of an attempt in its context.
type attemptKey struct{}

// attempt is one call that acquires: it may send one token after the other.
type attempt struct {
	mu     sync.Mutex
	tokens []string // guarded by mu
}

// Identity tells the processes apart.
func (p *process) Identity() any { return p }

// Eval passes a step on.
func (p *process) Eval(ctx context.Context, script *redisadapter.Script, keys, args []string) (any, error) {
	if script == acquire {
		p.sends(ctx, args[3])
	}
	reply, err := p.Redis.Eval(ctx, p.rewrite(script), keys, args)
	switch {
	case script == acquire:
		p.acquired(args[3], reply, err)
	case script == leave && err == nil:
		p.left(args[3:])
	case script == tend && err == nil:
		p.left(leaving(args))
	}
	return reply, err
}

// leaving are the tokens that leave with a tend, each with its place; tend.lua has the
// order of the arguments.
func leaving(args []string) []string {
	at := 9 + 2*number(args[4])
	return args[at : at+2*number(args[5])]
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err) // the steps are those of this module
	}
	return n
}

// sends notes that a token is on its way.
func (p *process) sends(ctx context.Context, token string) {
	a := ctx.Value(attemptKey{}).(*attempt)
	a.mu.Lock()
	defer a.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fates[token] == nil {
		p.fates[token] = &fate{}
		a.tokens = append(a.tokens, token)
	}
}

// acquired notes the answer to an acquire. Once one is answered, no copy of it counts when
// the token has left, or got nothing: the library promises that.
func (p *process) acquired(token string, reply any, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fates[token]
	if err != nil {
		var refusal *redisadapter.ReplyError
		f.lost = f.lost || !redisadapter.IsNotSent(err) && !errors.As(err, &refusal)
		f.taken = f.taken || f.lost
		return
	}
	f.lost, f.over = false, 0
	switch protocol.Outcome(reply.([]any)[3].(int64)) {
	case protocol.Granted, protocol.Queued:
		f.taken = true
	default:
		f.over = int64(time.Since(p.start))
	}
}

// left notes that tokens, each followed by its place, have left.
func (p *process) left(leavers []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(leavers); i += 2 {
		if f := p.fates[leavers[i]]; f.over == 0 {
			f.over = int64(time.Since(p.start))
		}
	}
}

// forgotten are the ghosts of an event, of which the caller was told of one token, or of
// none.
func (p *process) forgotten(a *attempt, e *event, end int64) (ghosts []ghost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, token := range a.tokens {
		f := p.fates[token]
		switch told := e.hold != nil && e.hold.token == token; {
		case told && e.to-e.from >= p.lease:
			ghosts = append(ghosts, ghost{e.n, e.to})
		case told || !f.taken:
		case f.lost || f.over == 0:
			ghosts = append(ghosts, ghost{e.n, end})
		default:
			ghosts = append(ghosts, ghost{e.n, max(f.over, e.to)})
		}
	}
	return ghosts
}

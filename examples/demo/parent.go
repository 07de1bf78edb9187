package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redsem/redsem/semaphore"
)

// The course of the demo.
const (
	capacity = 2
	packages = 40                     // so many pieces of work, each of
	shortest = 250 * time.Millisecond // at least about this
	longest  = 450 * time.Millisecond // to this: 10 s in all

	patience = 2 * time.Minute // after that something is wrong

	// The lease is short, so that a dead process's permit is back soon; the
	// living renew theirs.
	lease = 2 * time.Second

	victim   = "cedar"
	fatal    = 4                      // the victim dies over its fourth job,
	lifeLeft = 400 * time.Millisecond // so long after it got in,
	endless  = 100                    // which would take so many times as long
)

const title = "5 processes hash the packages of the Go source. A semaphore admits 2 at a time."

var names = []string{"ash", "birch", "cedar", "dogwood", "elm"}

// run plays the demo, and says whether all checks passed. Whenever it returns,
// nothing of it is left: no process, no file, no key.
func run(ctx context.Context, out *screen) (passed bool, err error) {
	out.line("%s", out.paint(bold, title))
	jobs, err := chooseJobs(packages)
	if err != nil {
		return false, err
	}
	expected, err := prepare(ctx, jobs, shortest, longest)
	if err != nil {
		return false, err
	}
	settings := semaphore.Settings{Expiration: lease, MaxParallelResources: capacity, AutoRenew: true}
	server, err := openServer(ctx, os.Getenv("REDIS_URL"), settings)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	folder, err := os.MkdirTemp("", "redsem-demo-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	begun := time.Now()
	p := &parent{out: out, waiting: jobs, total: len(jobs), slowdown: 1, clock: newClock(begun)}
	p.crew, err = hire(names, setup{Redis: server.url, Key: server.key, Settings: settings, Begun: begun.UnixNano()}, folder)
	if err != nil {
		return false, err
	}
	defer p.crew.dismiss()
	p.introduce(server.name)
	if err := p.direct(ctx); err != nil {
		return false, err
	}
	if err := p.crew.finish(); err != nil {
		return false, err
	}
	e := evidence{capacity: capacity, lease: lease, digests: expected, victim: victim, killedAt: p.killedAt}
	if err := e.gather(jobs, folder, server.semaphore); err != nil {
		return false, err
	}
	return report(out, e, p.pids()), nil
}

// gather collects what the checks go by, when all workers have ended.
func (e *evidence) gather(jobs []job, folder string, sem *semaphore.Semaphore) error {
	for _, j := range jobs {
		e.packages = append(e.packages, j.Package)
		e.files += len(j.Files)
	}
	records, err := readRecords(folder)
	if err != nil {
		return err
	}
	if e.visits, err = visitsOf(records); err != nil {
		return err
	}
	e.gaps = gapsOf(records)
	e.free, err = sem.GetNumAvailableResources()
	return err
}

// parent hands out the jobs, kills the victim, and shows what happens.
type parent struct {
	out   *screen
	crew  *crew
	clock clock

	waiting   []job   // to be handed out
	slowdown  float64 // how much longer than alone the jobs take at present
	done      int
	total     int
	killing   <-chan time.Time // when to kill the victim, or nil
	killedAt  time.Duration    // or 0
	deadUntil time.Duration    // until when the dead victim has its permit
	restored  bool             // its permit is in use again
}

func (p *parent) introduce(redis string) {
	var list []string
	for i, m := range p.crew.workers {
		list = append(list, fmt.Sprintf("%s %d", p.out.paint(palette[i], m.name), m.cmd.Process.Pid))
	}
	p.out.line("Processes  %s", strings.Join(list, ", "))
	p.out.line("Redis      %s", redis)
	p.out.line("Lease      %v, renewed while its holder lives", lease)
	p.out.line("")
}

// direct runs until all jobs are done.
func (p *parent) direct(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not done after %v", patience))
	defer cancel()
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	for p.done < p.total {
		select {
		case n := <-p.crew.news:
			if err := p.heed(n); err != nil {
				return err
			}
		case <-p.killing:
			p.killing = nil
			if err := p.kill(); err != nil {
				return err
			}
		case <-ticks.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.out.status(p.status())
	}
	return nil
}

// heed takes note of what a worker did, and gives it a job if it has none.
func (p *parent) heed(n news) error {
	m := n.from
	if n.ended {
		return p.died(m, n.err)
	}
	switch n.Event {
	case eventTrouble:
		p.say(red, "%s: %s", m.name, n.Text)
		return nil
	case eventSilence:
		return nil
	}
	m.state, m.ticket = n.Event, n.Ticket
	if n.Deadline != 0 {
		m.deadline = n.Deadline
	}
	switch n.Event {
	case eventStarted:
		return p.welcome(m, n.At)
	case eventGot:
		m.got = n.At
		p.admitted(m)
	case eventLeaving:
		latest := m.job.slowdown(n.At - m.got)
		p.slowdown += (min(latest, 3*p.slowdown) - p.slowdown) / 4 // the mean of the last few
	case eventLeft:
		p.done++
		p.next(m)
	case eventLost:
		p.say(red, "%s lost its lease; its job goes back", m.name)
		p.waiting = append(p.waiting, m.job)
		p.next(m)
	}
	return nil
}

// welcome gives a worker its first job, if its clock tells what ours does: the
// records could not be compared otherwise.
func (p *parent) welcome(m *member, at time.Duration) error {
	const tolerance = 20 * time.Millisecond // clocks of some systems are that coarse
	if at < -tolerance || at > p.clock.now()+tolerance {
		return fmt.Errorf("the system clock was set while %s started; please run the demo again", m.name)
	}
	p.next(m)
	return nil
}

// next gives a worker a job, if there is one left.
func (p *parent) next(m *member) {
	m.idle = len(p.waiting) == 0
	if m.idle {
		return
	}
	j := p.waiting[0].sized(p.slowdown)
	p.waiting = p.waiting[1:]
	if m.name == victim && m.given+1 >= fatal {
		j.Passes *= endless // so that it is inside when it is killed, on any machine
	}
	m.give(j)
}

// admitted notes that a worker has come in.
func (p *parent) admitted(m *member) {
	if m.name == victim && m.given >= fatal {
		p.killing = time.After(lifeLeft)
	}
	if p.killedAt != 0 && !p.restored && m.got >= p.deadUntil && len(p.inside()) == capacity {
		p.restored = true
		p.say(green, "%s's lease has ended: %s, next in the queue, gets its permit", victim, m.name)
	}
}

// kill ends the victim as kill -9 does.
func (p *parent) kill() error {
	for _, m := range p.crew.workers {
		if m.name != victim || !isInside(m.state) {
			continue
		}
		if err := m.cmd.Process.Kill(); err != nil {
			return fmt.Errorf("kill %s: %w", m.name, err)
		}
		p.killedAt, p.deadUntil = p.clock.now(), m.deadline
		p.say(red, "kill -9 %s, while it is inside: nobody can give its permit back", m.name)
	}
	return nil
}

// died takes over the job of a worker that has died.
func (p *parent) died(m *member, err error) error {
	m.dead = true
	if m.name != victim || p.killedAt == 0 {
		return fmt.Errorf("%s ended by itself: %v", m.name, err)
	}
	p.waiting = append([]job{m.job}, p.waiting...)
	for _, other := range p.crew.workers {
		if other.idle && len(p.waiting) > 0 {
			p.next(other)
		}
	}
	return nil
}

// say prints a line that stays.
func (p *parent) say(colour, format string, args ...any) {
	text := []rune(fmt.Sprintf(format, args...))
	p.out.line("%5.1f s  %s", p.clock.now().Seconds(), p.out.paint(colour, string(text[:min(len(text), width-9)])))
}

func (p *parent) pids() map[string]int {
	pids := make(map[string]int)
	for _, m := range p.crew.workers {
		pids[m.name] = m.cmd.Process.Pid
	}
	return pids
}

package protocol

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redsem/redsem/redisadapter"
)

// run sends a step and reads the head of its reply.
func (s Steps) run(ctx context.Context, script *redisadapter.Script, args ...string) (*reply, error) {
	line := make([]string, 0, 3+len(args))
	line = append(line, s.Process, strconv.Itoa(s.Capacity), ms(s.Lease))
	line = append(line, args...)
	sent := Now()
	raw, err := s.Client.Eval(ctx, script, s.Keys.fixed, line)
	r := &reply{}
	if err != nil {
		return r, err
	}
	r.rest, _ = raw.([]any)
	r.header.Reading = Reading{Sent: sent, Server: r.int()}
	r.header.More = r.int() == 1
	r.header.Grants = r.grants()
	return r, nil
}

// reply is read element by element; the first that is not as expected makes
// done fail.
type reply struct {
	header Header
	rest   []any
	err    error
}

func (r *reply) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("unexpected reply of a script: "+format, args...)
	}
}

func (r *reply) next() any {
	if len(r.rest) == 0 {
		r.fail("too short")
		return nil
	}
	first := r.rest[0]
	r.rest = r.rest[1:]
	return first
}

func (r *reply) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok {
		r.fail("%v in place of a number", v)
	}
	return n
}

// ints reads an array of n numbers, of any length if n < 0.
func (r *reply) ints(n int) []int64 {
	numbers := make([]int64, 0, max(n, 0))
	r.each(func(list *reply) { numbers = append(numbers, list.int()) })
	if n >= 0 && len(numbers) != n {
		r.fail("%d in place of %d numbers", len(numbers), n)
	}
	return numbers
}

func (r *reply) grants() []Grant {
	return ParseGrants(r.text())
}

// text reads a string.
func (r *reply) text() string {
	switch text := r.next().(type) {
	case string:
		return text
	case []byte:
		return string(text)
	default:
		r.fail("%v in place of a text", text)
		return ""
	}
}

func (r *reply) job() Job { return Job{Content: r.text(), Deliveries: r.int(), ID: r.int()} }

// each reads an array in turn: read takes some elements of it at a time.
func (r *reply) each(read func(list *reply)) {
	v := r.next()
	list, ok := v.([]any)
	if !ok {
		r.fail("%v in place of an array", v)
		return
	}
	inner := reply{rest: list}
	for len(inner.rest) > 0 && inner.err == nil {
		read(&inner)
	}
	if inner.err != nil {
		r.err = inner.err
	}
}

// done is err, or what was wrong with the reply.
func (r *reply) done(err error) error {
	if err != nil {
		return err
	}
	return r.err
}

// ParseGrants reads a message: one grant a line, token, fence and end. Lines that
// are not of that form are skipped: somebody else wrote them.
func ParseGrants(message string) []Grant {
	if message == "" {
		return nil
	}
	grants := make([]Grant, 0, 1+strings.Count(message, "\n"))
	for line := range strings.Lines(message) {
		token, numbers, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fence, end, _ := strings.Cut(numbers, " ")
		g := Grant{Token: token}
		var err, err2 error
		g.Fence, err = strconv.ParseInt(fence, 10, 64)
		g.End, err2 = strconv.ParseInt(end, 10, 64)
		if token != "" && err == nil && err2 == nil {
			grants = append(grants, g)
		}
	}
	return grants
}

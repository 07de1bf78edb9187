package crashtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// life is what a process has recorded.
type life struct {
	child   int
	role    string
	killed  int64 // when it was surely dead, 0 if it was not killed
	records []Record
}

// operation is what became of one acquisition, or of the delivery of a job. Times are
// of Clock, 0 if it did not come to that.
type operation struct {
	child int
	role  string
	n     int64
	cut   bool // its process was killed

	asked, holds, leaving, ended int64
	token                        string
	fence                        int64 // 0: not known
	permits                      int
	until                        int64 // the lease does not end before
	job                          int64
	value                        string
	back                         bool // the job is given back
	outcome                      Event
	records                      []Record
}

// String shows the records.
func (o *operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  process %d (%s)", o.child, o.role)
	if o.cut {
		b.WriteString(", killed")
	}
	for _, r := range o.records {
		fmt.Fprintf(&b, "\n    %+v", r)
	}
	return b.String()
}

// operations puts the records of each operation together.
func operations(lives []life) []*operation {
	var all []*operation
	for _, l := range lives {
		byNumber := make(map[int64]*operation)
		for _, r := range l.records {
			if r.Event == Signals || r.Event == Signalled {
				continue
			}
			o := byNumber[r.Op]
			if o == nil {
				o = &operation{child: l.child, role: l.role, n: r.Op, cut: l.killed != 0}
				byNumber[r.Op] = o
				all = append(all, o)
			}
			o.take(r)
		}
	}
	return all
}

// take adds a record.
func (o *operation) take(r Record) {
	o.records = append(o.records, r)
	o.token, o.value = cmp.Or(r.Token, o.token), cmp.Or(r.Value, o.value)
	o.fence, o.job = cmp.Or(r.Fence, o.fence), cmp.Or(r.Job, o.job)
	o.permits = cmp.Or(r.Permits, o.permits)
	o.until = max(o.until, r.Until)
	switch r.Event {
	case Asked:
		o.asked = r.At
	case Holds:
		o.holds = r.At
	case Leaving:
		o.leaving, o.back = r.At, r.Return
	case Left, Lost, GaveUp, Failed:
		o.ended, o.outcome = r.At, r.Event
	}
}

// drift is how much the clock of the server may run faster than that of the processes
// during a lease.
const drift = 2e6

// end is the moment until which the operation surely holds: it leaves then, or the
// lease may end. The death of its process ends nothing, for a lease goes on.
func (o *operation) end() int64 {
	if o.leaving != 0 {
		return min(o.leaving, o.until-drift)
	}
	return o.until - drift
}

// done says that the job was ended; maybeDone that it may have been.
func (o *operation) done() bool { return o.outcome == Left && !o.back }
func (o *operation) maybeDone() bool {
	return o.done() || o.leaving != 0 && !o.back && o.outcome == "" && o.cut
}

// held are those operations that got what they asked for.
func held(all []*operation) []*operation {
	return slices.DeleteFunc(slices.Clone(all), func(o *operation) bool { return o.holds == 0 })
}

// complaints are what a check has found. Only the first have a text.
type complaints []string

const (
	mostComplaints = 4  // are shown of one check
	mostShown      = 20 // operations are shown of one complaint
)

func (c *complaints) add(about []*operation, format string, args ...any) {
	if len(*c) >= mostComplaints {
		*c = append(*c, "")
		return
	}
	text := fmt.Sprintf(format, args...)
	about = about[:min(len(about), mostShown)]
	for _, o := range about {
		text += "\n" + o.String()
	}
	*c = append(*c, text)
}

// String shows the first of them.
func (c complaints) String() string {
	shown := c[:min(len(c), mostComplaints)]
	return fmt.Sprintf("%d complaints\n%s", len(c), strings.Join(shown, "\n"))
}

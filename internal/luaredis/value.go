package luaredis

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

type kind int

const (
	anyKind kind = iota // of a command: it takes keys of all kinds, or none
	text
	list
	hash
	zset
)

// value is the content of a key.
type value struct {
	kind kind
	ends int64 // server ms, 0: never

	text   string
	list   []string
	hash   map[string]string
	scores map[string]float64
	order  []string // the members of scores, by score and name
}

func (v *value) copy() *value {
	c := *v
	c.list, c.order = slices.Clone(v.list), slices.Clone(v.order)
	c.hash, c.scores = maps.Clone(v.hash), maps.Clone(v.scores)
	return &c
}

func (v *value) empty() bool {
	return v.kind != text && len(v.list) == 0 && len(v.hash) == 0 && len(v.scores) == 0
}

// rank is where a member of a sorted set stands, or would stand.
func (v *value) rank(member string, score float64) int {
	at, _ := slices.BinarySearchFunc(v.order, member, func(a, b string) int {
		return cmp.Or(cmp.Compare(v.scores[a], score), cmp.Compare(a, b))
	})
	return at
}

// put adds a member of a sorted set, or moves it; it says whether it is new.
func (v *value) put(member string, score float64) bool {
	had := v.remove(member)
	if v.scores == nil {
		v.scores = make(map[string]float64)
	}
	v.order = slices.Insert(v.order, v.rank(member, score), member)
	v.scores[member] = score
	return !had
}

func (v *value) remove(member string) bool {
	score, ok := v.scores[member]
	if ok {
		at := v.rank(member, score)
		v.order = slices.Delete(v.order, at, at+1)
		delete(v.scores, member)
	}
	return ok
}

// between are the members of a sorted set whose scores are in bounds, "(" in front
// of one that does not count itself.
func (v *value) between(low, high string) ([]string, error) {
	from, openFrom, err := bound(low)
	if err != nil {
		return nil, err
	}
	to, openTo, err := bound(high)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, member := range v.order {
		score := v.scores[member]
		if (score > from || score == from && !openFrom) && (score < to || score == to && !openTo) {
			found = append(found, member)
		}
	}
	return found, nil
}

func bound(text string) (score float64, open bool, err error) {
	if open = text[:1] == "("; open {
		text = text[1:]
	}
	score, err = strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false, refuse("ERR min or max is not a float")
	}
	return score, open, nil
}

// window turns the bounds of a range, negative ones from the end, into those of a
// slice.
func window(n int, first, last string) (from, to int, err error) {
	from, err = strconv.Atoi(first)
	if err != nil {
		return 0, 0, refuse("ERR value is not an integer or out of range")
	}
	to, err = strconv.Atoi(last)
	if err != nil {
		return 0, 0, refuse("ERR value is not an integer or out of range")
	}
	if from < 0 {
		from = max(from+n, 0)
	}
	if to < 0 {
		to += n
	}
	to = min(to+1, n)
	if from >= to {
		return 0, 0, nil
	}
	return from, to, nil
}

// number writes a score as Redis does.
func number(score float64) string { return strconv.FormatFloat(score, 'g', 17, 64) }

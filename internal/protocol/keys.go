package protocol

import "strings"

// Keys are the Redis keys of one semaphore, or of one job queue. All share one hash tag.
type Keys struct {
	fixed []string // in the order that the scripts expect: KEYS[1], …
}

// NewKeys names the keys of the semaphore with the given binding key, or of the
// queue of that name.
//
// The first key is semaphore:{KEY}, so KEY is the hash tag. Redis Cluster takes
// the text between the first "{" and the first "}" after it for the tag, unless
// that is empty; so braces within KEY do no harm, but one that starts with "}" would
// have no tag. It gets a "%" in front, and so does every one that could be
// mistaken for it then.
func NewKeys(kind Kind, bindingKey string) Keys {
	if strings.HasPrefix(strings.TrimLeft(bindingKey, "%"), "}") {
		bindingKey = "%" + bindingKey
	}
	name := "semaphore:{" + bindingKey + "}"
	fixed := []string{
		name,
		name + ":version",
		name + ":available",
		name + ":locked",
		name + ":leases",
		name + ":queue",
		name + ":clients",
		name + ":released",
		name + ":calls",
	}
	if kind == Queue {
		fixed = append(fixed, name+":jobs", name+":expiries")
	}
	return Keys{fixed: fixed}
}

// Name is the first key, from which the others are derived.
func (k Keys) Name() string { return k.fixed[0] }

// Inbox is the list in which a process gets its grants.
func (k Keys) Inbox(process string) string { return k.fixed[0] + ":inbox:" + process }

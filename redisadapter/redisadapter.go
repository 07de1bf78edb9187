// Package redisadapter defines what redsem asks of a Redis client: to run a
// script, and to wait for an element of a list. Whoever has a client of their
// own plugs it in with these two methods; the package adaptertest proves that
// they keep the contract.
package redisadapter

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// Redis is a client of one Redis server, Sentinel group or Cluster. Its methods
// may be called by many goroutines at once.
//
// An error reply of the server must come back as a *ReplyError (anywhere in the
// error's chain); every other error means that it is unknown whether the
// server did what it was asked. redsem repeats its scripts after such an
// error, they are made for that; an adapter may repeat Eval, but never BLPop.
type Redis interface {
	// Eval runs script atomically, with its keys (all in one hash slot) and
	// arguments. It sends EVALSHA first and the source only if the server
	// does not know it (NOSCRIPT).
	//
	// Replies: an integer is an int64; a string is a string or a []byte; nil
	// is nil; an array is a []any of these.
	//
	// Eval returns when ctx's deadline passes, whether it waits for a
	// connection or for the reply. If ctx is cancelled before, Eval stops
	// waiting for a connection; a command that has been sent need not be
	// interrupted. It must not be held up by calls of BLPop: these use
	// connections of their own, beside any limit of the pool.
	Eval(ctx context.Context, script *Script, keys, args []string) (any, error)

	// BLPop waits until the list at key has an element, removes the first and
	// returns it; ok is false if there was none for the timeout, which is at
	// least a millisecond. The server must be told that timeout, and the
	// client must wait longer than that for the reply: no shorter timeout of
	// its own may end the wait.
	//
	// If ctx ends, BLPop returns soon, with an error that matches ctx.Err(),
	// and the server stops serving the call (the connection is closed, say).
	// An element that has arrived by then is returned rather than dropped.
	//
	// BLPop must not be repeated behind the caller's back: after an error
	// the caller asks the server what has become of the element.
	BLPop(ctx context.Context, key string, timeout time.Duration) (value string, ok bool, err error)
}

// Identifier may be implemented by a Redis of which there can be several for
// one underlying client. Those whose Identity is equal (==) are taken for the
// same, so that semaphores made with them share their connections. Without
// it, a Redis is the same as another if the two are equal.
type Identifier interface {
	Identity() any
}

// Script is a Lua script with its SHA-1, by which servers know it.
type Script struct {
	source string
	sha    string
}

// NewScript makes a Script of Lua source text.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Source is the text of the script, for EVAL.
func (s *Script) Source() string { return s.source }

// SHA is the SHA-1 of the source in lower-case hex, for EVALSHA.
func (s *Script) SHA() string { return s.sha }

// ReplyError is an error that the server answered.
type ReplyError struct {
	Message string // as sent, without the leading "-": "WRONGTYPE Operation …"
}

// Error is the message of the server.
func (e *ReplyError) Error() string { return e.Message }

// Prefix is the first word of the message, the code of the error: "NOSCRIPT",
// "WRONGTYPE", "ERR", …
func (e *ReplyError) Prefix() string {
	prefix, _, _ := strings.Cut(e.Message, " ")
	return prefix
}

// IsNoScript says that err is the server's answer to an EVALSHA of a script that
// it does not know.
func IsNoScript(err error) bool {
	var reply *ReplyError
	return errors.As(err, &reply) && reply.Prefix() == "NOSCRIPT"
}

// NotSent marks an error before which nothing of the call can have reached a
// server: no connection was to be had, say. Then redsem need not see to the call's
// possible effects. An adapter that repeats a call may only mark its error if that
// is so for each time.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return notSent{err}
}

// IsNotSent says that an error was marked with NotSent.
func IsNotSent(err error) bool {
	if err == nil {
		return false
	}
	var marked notSent
	return errors.As(err, &marked)
}

type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

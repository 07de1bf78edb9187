package luaredis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/redsem/redsem/redisadapter"
)

// compiled has the scripts that were run before, by SHA.
var compiled sync.Map

func compile(script *redisadapter.Script) (*lua.FunctionProto, error) {
	if proto, ok := compiled.Load(script.SHA()); ok {
		return proto.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(script.Source()), "@user_script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "@user_script")
	if err != nil {
		return nil, err
	}
	compiled.Store(script.SHA(), proto)
	return proto, nil
}

// newState makes the interpreter of a server, as Redis furnishes it.
func newState(s *Server) *lua.LState {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	redis := state.NewTable()
	redis.RawSetString("call", state.NewFunction(func(l *lua.LState) int { return s.call(l, false) }))
	redis.RawSetString("pcall", state.NewFunction(func(l *lua.LState) int { return s.call(l, true) }))
	redis.RawSetString("error_reply", state.NewFunction(func(l *lua.LState) int {
		l.Push(errorTable(l, l.CheckString(1)))
		return 1
	}))
	state.SetGlobal("redis", redis)
	return state
}

// failure carries an error reply through the interpreter.
type failure struct{ reply error }

// run runs a script. What it has written stays, should it fail.
func (s *Server) run(script *redisadapter.Script, keys, args []string) (any, error) {
	proto, err := compile(script)
	if err != nil {
		return nil, refuse("ERR Error compiling script: %v", err)
	}
	l := s.state
	defer l.SetTop(0)
	l.SetGlobal("KEYS", tableOf(l, keys))
	l.SetGlobal("ARGV", tableOf(l, args))
	l.Push(l.NewFunctionFromProto(proto))
	if err := l.PCall(0, 1, nil); err != nil {
		var raised *lua.ApiError
		if errors.As(err, &raised) {
			if data, ok := raised.Object.(*lua.LUserData); ok {
				return nil, data.Value.(failure).reply
			}
		}
		return nil, refuse("ERR %v", err)
	}
	return fromLua(l.Get(-1))
}

func (s *Server) call(l *lua.LState, protected bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = numberText(float64(v))
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	reply, err := s.do(args[0], args[1:])
	var refused *redisadapter.ReplyError
	switch {
	case err == nil:
		l.Push(toLua(l, reply))
	case protected && errors.As(err, &refused):
		l.Push(errorTable(l, refused.Message))
	default:
		data := l.NewUserData()
		data.Value = failure{err}
		l.Error(data, 1)
	}
	return 1
}

// numberText writes a number as Redis does when a script passes it to a command.
func numberText(n float64) string {
	if n == float64(int64(n)) {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', 17, 64)
}

func errorTable(l *lua.LState, message string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString("err", lua.LString(message))
	return t
}

func tableOf(l *lua.LState, texts []string) *lua.LTable {
	t := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch v := reply.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, element := range v {
			t.Append(toLua(l, element))
		}
		return t
	default:
		panic(fmt.Sprintf("luaredis: a reply of type %T", reply))
	}
}

func fromLua(v lua.LValue) (any, error) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), nil
	case lua.LNumber:
		return int64(v), nil
	case lua.LBool:
		if v {
			return int64(1), nil
		}
		return nil, nil
	case *lua.LTable:
		if message, ok := v.RawGetString("err").(lua.LString); ok {
			return nil, &redisadapter.ReplyError{Message: string(message)}
		}
		all := make([]any, 0, v.Len())
		for i := 1; ; i++ {
			element := v.RawGetInt(i)
			if element == lua.LNil {
				return all, nil
			}
			converted, err := fromLua(element)
			if err != nil {
				return nil, err
			}
			all = append(all, converted)
		}
	default:
		return nil, nil
	}
}

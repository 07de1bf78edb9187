package luaredis

import (
	"slices"
	"strconv"
	"strings"
)

// command is one that the model knows. run gets the value of the first key, which is
// empty if there is none.
type command struct {
	kind   kind // of its first argument, which is a key
	least  int  // arguments
	writes bool
	grows  bool // it may need memory
	run    func(s *Server, v *value, args []string) (any, error)
}

var commands map[string]command

func init() { // commands run commands
	const writes, grows = true, true
	commands = map[string]command{
		"TIME":    {run: doTime},
		"EXISTS":  {least: 1, run: doExists},
		"UNLINK":  {least: 1, writes: writes, run: doUnlink},
		"DEL":     {least: 1, writes: writes, run: doUnlink},
		"PEXPIRE": {least: 2, writes: writes, run: doPExpire},
		"PERSIST": {least: 1, writes: writes, run: doPersist},
		"PTTL":    {least: 1, run: doPTTL},

		"GET": {kind: text, least: 1, run: doGet},
		"SET": {least: 2, writes: writes, grows: grows, run: doSet},

		"HGET":    {kind: hash, least: 2, run: doHGet},
		"HMGET":   {kind: hash, least: 2, run: doHMGet},
		"HGETALL": {kind: hash, least: 1, run: doHGetAll},
		"HKEYS":   {kind: hash, least: 1, run: doHKeys},
		"HLEN":    {kind: hash, least: 1, run: func(_ *Server, v *value, _ []string) (any, error) { return int64(len(v.hash)), nil }},
		"HEXISTS": {kind: hash, least: 2, run: doHExists},
		"HSTRLEN": {kind: hash, least: 2, run: func(_ *Server, v *value, args []string) (any, error) { return int64(len(v.hash[args[1]])), nil }},
		"HSET":    {kind: hash, least: 3, writes: writes, grows: grows, run: doHSet},
		"HSETNX":  {kind: hash, least: 3, writes: writes, grows: grows, run: doHSetNX},
		"HDEL":    {kind: hash, least: 2, writes: writes, run: doHDel},

		"LLEN":   {kind: list, least: 1, run: func(_ *Server, v *value, _ []string) (any, error) { return int64(len(v.list)), nil }},
		"LRANGE": {kind: list, least: 3, run: doLRange},
		"LTRIM":  {kind: list, least: 3, writes: writes, run: doLTrim},
		"LPOP":   {kind: list, least: 1, writes: writes, run: doLPop},
		"LPUSH":  {kind: list, least: 2, writes: writes, grows: grows, run: doLPush},
		"RPUSH":  {kind: list, least: 2, writes: writes, grows: grows, run: doRPush},

		"ZADD":             {kind: zset, least: 3, writes: writes, grows: grows, run: doZAdd},
		"ZCARD":            {kind: zset, least: 1, run: func(_ *Server, v *value, _ []string) (any, error) { return int64(len(v.order)), nil }},
		"ZSCORE":           {kind: zset, least: 2, run: doZScore},
		"ZRANK":            {kind: zset, least: 2, run: doZRank},
		"ZRANGE":           {kind: zset, least: 3, run: doZRange},
		"ZREVRANGE":        {kind: zset, least: 3, run: doZRevRange},
		"ZRANGEBYSCORE":    {kind: zset, least: 3, run: doZRangeByScore},
		"ZREM":             {kind: zset, least: 2, writes: writes, run: doZRem},
		"ZREMRANGEBYSCORE": {kind: zset, least: 3, writes: writes, run: doZRemRangeByScore},
		"ZPOPMIN":          {kind: zset, least: 1, writes: writes, run: doZPopMin},
	}
}

func doTime(s *Server, _ *value, _ []string) (any, error) {
	us := s.now.UnixMicro()
	return []any{strconv.FormatInt(us/1_000_000, 10), strconv.FormatInt(us%1_000_000, 10)}, nil
}

func doExists(s *Server, _ *value, keys []string) (any, error) { return s.count(keys, s.has) }

func doUnlink(s *Server, _ *value, keys []string) (any, error) {
	return s.count(keys, func(key string) bool { return s.has(key) && s.Delete(key) })
}

func (s *Server) has(key string) bool { return s.lookup(key) != nil }

func (s *Server) count(keys []string, so func(string) bool) (any, error) {
	n := int64(0)
	for _, key := range keys {
		n += bit(so(key))
	}
	return n, nil
}

func bit(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

func doPExpire(s *Server, _ *value, args []string) (any, error) {
	ttl, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return nil, refuse("ERR value is not an integer or out of range")
	}
	v := s.lookup(args[0])
	if v == nil {
		return int64(0), nil
	}
	if v.ends = s.now.UnixMilli() + ttl; ttl <= 0 {
		s.Delete(args[0])
	}
	return int64(1), nil
}

func doPersist(s *Server, _ *value, args []string) (any, error) {
	v := s.lookup(args[0])
	if v == nil || v.ends == 0 {
		return int64(0), nil
	}
	v.ends = 0
	return int64(1), nil
}

func doPTTL(s *Server, _ *value, args []string) (any, error) {
	switch v := s.lookup(args[0]); {
	case v == nil:
		return int64(-2), nil
	case v.ends == 0:
		return int64(-1), nil
	default:
		return v.ends - s.now.UnixMilli(), nil
	}
}

func doGet(s *Server, v *value, args []string) (any, error) {
	if !s.has(args[0]) {
		return nil, nil
	}
	return v.text, nil
}

func doSet(s *Server, _ *value, args []string) (any, error) {
	s.data[args[0]] = &value{kind: text, text: args[1]}
	return "OK", nil
}

// optional is a field of a hash, or nil.
func optional(v *value, field string) any {
	if content, ok := v.hash[field]; ok {
		return content
	}
	return nil
}

func doHGet(_ *Server, v *value, args []string) (any, error) { return optional(v, args[1]), nil }

func doHMGet(_ *Server, v *value, args []string) (any, error) {
	var all []any
	for _, field := range args[1:] {
		all = append(all, optional(v, field))
	}
	return all, nil
}

// fields are those of a hash, in an order that is always the same.
func (v *value) fields() []string {
	names := make([]string, 0, len(v.hash))
	for name := range v.hash {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func doHGetAll(_ *Server, v *value, _ []string) (any, error) {
	var all []any
	for _, field := range v.fields() {
		all = append(all, field, v.hash[field])
	}
	return all, nil
}

func doHKeys(_ *Server, v *value, _ []string) (any, error) { return anyOf(v.fields()), nil }

func doHExists(_ *Server, v *value, args []string) (any, error) {
	_, ok := v.hash[args[1]]
	return bit(ok), nil
}

func doHSet(_ *Server, v *value, args []string) (any, error) {
	n := int64(0)
	if v.hash == nil {
		v.hash = make(map[string]string)
	}
	for i := 1; i+1 < len(args); i += 2 {
		_, had := v.hash[args[i]]
		n += bit(!had)
		v.hash[args[i]] = args[i+1]
	}
	return n, nil
}

func doHSetNX(s *Server, v *value, args []string) (any, error) {
	if _, had := v.hash[args[1]]; had {
		return int64(0), nil
	}
	return doHSet(s, v, args)
}

func doHDel(_ *Server, v *value, args []string) (any, error) {
	n := int64(0)
	for _, field := range args[1:] {
		_, had := v.hash[field]
		n += bit(had)
		delete(v.hash, field)
	}
	return n, nil
}

func doLRange(_ *Server, v *value, args []string) (any, error) {
	from, to, err := window(len(v.list), args[1], args[2])
	return anyOf(v.list[from:to]), err
}

func doLTrim(_ *Server, v *value, args []string) (any, error) {
	from, to, err := window(len(v.list), args[1], args[2])
	if err != nil {
		return nil, err
	}
	v.list = v.list[from:to]
	return "OK", nil
}

func doLPop(_ *Server, v *value, _ []string) (any, error) {
	if len(v.list) == 0 {
		return nil, nil
	}
	first := v.list[0]
	v.list = v.list[1:]
	return first, nil
}

func doLPush(_ *Server, v *value, args []string) (any, error) {
	for _, element := range args[1:] {
		v.list = slices.Insert(v.list, 0, element)
	}
	return int64(len(v.list)), nil
}

func doRPush(_ *Server, v *value, args []string) (any, error) {
	v.list = append(v.list, args[1:]...)
	return int64(len(v.list)), nil
}

func doZAdd(_ *Server, v *value, args []string) (any, error) {
	score, err := strconv.ParseFloat(args[1], 64)
	if err != nil || len(args) != 3 {
		return nil, refuse("ERR value is not a valid float")
	}
	return bit(v.put(args[2], score)), nil
}

func doZScore(_ *Server, v *value, args []string) (any, error) {
	if score, ok := v.scores[args[1]]; ok {
		return number(score), nil
	}
	return nil, nil
}

func doZRank(_ *Server, v *value, args []string) (any, error) {
	if score, ok := v.scores[args[1]]; ok {
		return int64(v.rank(args[1], score)), nil
	}
	return nil, nil
}

func doZRange(_ *Server, v *value, args []string) (any, error) { return v.ranged(v.order, args) }

func doZRevRange(_ *Server, v *value, args []string) (any, error) {
	order := slices.Clone(v.order)
	slices.Reverse(order)
	return v.ranged(order, args)
}

func (v *value) ranged(order, args []string) (any, error) {
	from, to, err := window(len(order), args[1], args[2])
	if err != nil {
		return nil, err
	}
	return v.listed(order[from:to], len(args) > 3 && strings.EqualFold(args[3], "WITHSCORES")), nil
}

// listed lists members, with their scores or without.
func (v *value) listed(members []string, scores bool) any {
	var all []any
	for _, member := range members {
		all = append(all, member)
		if scores {
			all = append(all, number(v.scores[member]))
		}
	}
	return all
}

func doZRangeByScore(_ *Server, v *value, args []string) (any, error) {
	found, err := v.between(args[1], args[2])
	if err != nil {
		return nil, err
	}
	if len(args) == 6 { // LIMIT 0 n
		n, err := strconv.Atoi(args[5])
		if err != nil || args[3] != "LIMIT" || args[4] != "0" {
			return nil, errArguments
		}
		found = found[:min(n, len(found))]
	}
	return anyOf(found), nil
}

func doZRem(_ *Server, v *value, args []string) (any, error) {
	n := int64(0)
	for _, member := range args[1:] {
		n += bit(v.remove(member))
	}
	return n, nil
}

func doZRemRangeByScore(_ *Server, v *value, args []string) (any, error) {
	found, err := v.between(args[1], args[2])
	for _, member := range found {
		v.remove(member)
	}
	return int64(len(found)), err
}

func doZPopMin(_ *Server, v *value, _ []string) (any, error) {
	if len(v.order) == 0 {
		return []any(nil), nil
	}
	first := v.order[0]
	reply := v.listed(v.order[:1], true)
	v.remove(first)
	return reply, nil
}

func anyOf(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

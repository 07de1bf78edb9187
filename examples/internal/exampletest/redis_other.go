//go:build !linux

package exampletest

import "testing"

func onRedis(t *testing.T, _ func(t *testing.T, url string)) {
	t.Skip("tests start a redis-server on Linux only")
}

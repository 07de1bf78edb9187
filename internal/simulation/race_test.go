//go:build race

package simulation

// raced: the race detector makes the Lua ten times slower.
const raced = true

// Package redsem runs code under a lock that many machines share.
package redsem

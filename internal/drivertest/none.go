//go:build nocuda || !linux || !(amd64 || arm64) || android

package drivertest

import "testing"

// Stub is a driver library; here there is none.
type Stub struct{ Path string }

// New skips the test.
func New(t testing.TB, macros ...string) *Stub { return &Stub{Path: Compile(t, macros...)} }

// Compile skips the test.
func Compile(t testing.TB, _ ...string) string {
	t.Skip("the stub driver is built on linux/amd64 and linux/arm64, without the tag nocuda")
	return ""
}

// Set does nothing.
func (*Stub) Set(string, int) {}

// Fail does nothing.
func (*Stub) Fail(string, int, int) {}

// Live counts nothing.
func (*Stub) Live(string) int { return 0 }

// NothingLives holds.
func (*Stub) NothingLives() {}

// Log is empty.
func (*Stub) Log(string) []string { return nil }

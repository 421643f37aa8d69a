package qwb

import (
	"os"
	"runtime/debug"
	"testing"
)

// Hundreds of small networks in one process: a sixth of the time went into collecting.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// Package longtest says whether tests may take long: where QWB_LONG is set, as .ci/run has it, and -short is not. What a test leaves out is
// said in its log, so that internal/testrun knows which ones to run again.
package longtest

import (
	"os"
	"testing"
	"time"
)

// Unset is in the log of every test that leaves something out.
const Unset = "QWB_LONG is not set"

// Wanted reports whether the test may take long.
func Wanted(t testing.TB) bool {
	t.Helper()
	if os.Getenv("QWB_LONG") != "" && !testing.Short() {
		return true
	}
	t.Log(Unset)
	return false
}

// Need skips a test that takes long, unless that is wanted; why says what takes so long.
func Need(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("QWB_LONG") == "" || testing.Short() {
		t.Skip(Unset + ": " + why)
	}
}

// Hang is from when on something is taken to hang: so long that no machine, however busy, decides a test by it.
const Hang = 10 * time.Minute

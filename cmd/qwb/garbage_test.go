package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Beside much that is in use there is little garbage, beside little there may be as much again, and it follows what happens.
func TestGarbageFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	settles := func(holds func() bool) {
		assert.Eventually(t, func() bool {
			runtime.GC()
			return holds()
		}, 10*time.Second, time.Millisecond)
	}
	garbage()
	much := make([]byte, 200<<20)
	settles(func() bool { return percent() == keptGarbage })
	runtime.KeepAlive(much)
	much = nil
	settles(func() bool { return percent() > keptGarbage })
}

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Garbage may take a fifth of what is in use, or leastGarbage if that is more, but no more than what is in use: most of what commands keep
// (weights, statistics, activations) is numbers, which the collector passes over.
const (
	keptGarbage  = 20 // percent
	leastGarbage = 16 << 20
)

// garbage holds that from now on, unless the user has said how much garbage there may be.
func garbage() {
	if os.Getenv("GOGC") == "" {
		afterCollection(100)
	}
}

// afterCollection works out how much garbage there may be when the collector has run the next time: what nobody uses is gone then.
func afterCollection(percent int) {
	runtime.AddCleanup(new([16]byte), func(percent int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		used := max(live[0].Value.Uint64(), 1)
		if now := int(min(max(100*leastGarbage/used, keptGarbage), 100)); now != percent {
			debug.SetGCPercent(now)
			percent = now
		}
		afterCollection(percent)
	}, percent)
}

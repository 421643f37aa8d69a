//go:build race

package programtest

// RaceDetector says that the race detector is on.
const RaceDetector = true

//go:build race

package decode_test

// racing says that the race detector is on: it makes pools forget, so that allocations cannot be counted.
const racing = true

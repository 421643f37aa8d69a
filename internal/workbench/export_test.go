package workbench

import "time"

// SetKept says how many bytes of results are kept, and returns how many were.
func SetKept(n int) (before int) {
	before, keptBytes = keptBytes, n
	return before
}

// SetPatience says how long a job that was stopped is waited for, and returns how long it was.
func SetPatience(d time.Duration) (before time.Duration) {
	before, patience = patience, d
	return before
}

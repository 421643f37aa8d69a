package server

import "time"

// SetStuck says how long an event may take to be sent, and returns how long it was.
func SetStuck(d time.Duration) (before time.Duration) {
	before, stuck = stuck, d
	return before
}

// SetBodyPatience says how long a body is waited for, and returns how long it was.
func SetBodyPatience(d time.Duration) (before time.Duration) {
	before, bodyPatience = bodyPatience, d
	return before
}

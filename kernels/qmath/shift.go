package qmath

import "math"

// shift returns x * 2^n rounded by r, exactly, for n in [-62, 31]; results beyond int64 saturate.
func (r Rounding) shift(x int64, n int) int64 {
	if n >= 0 {
		if v := x << n; v>>n == x {
			return v
		}
		if x < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	q := x >> -n
	rest := x - q<<-n // in [0, 2^-n)
	half := int64(1) << (-n - 1)
	if r.up(q, x < 0, rest, half) {
		q++
	}
	return q
}

// up decides whether floor q becomes q+1, given the rest above the floor and what half a step is.
func (r Rounding) up(q int64, negative bool, rest, half int64) bool {
	switch {
	case rest == 0 || r == Down:
		return false
	case r == Up:
		return true
	case rest != half:
		return rest > half
	}
	switch r {
	case HalfUp:
		return true
	case HalfDown:
		return false
	case HalfTowardsZero:
		return negative
	case HalfAwayFromZero:
		return !negative
	}
	return q&1 == 1
}

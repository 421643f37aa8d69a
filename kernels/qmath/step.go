package qmath

import "math"

// FoldedSlack is the largest relative difference that a factor per channel, folded into numbers of a grid, leaves between them and the
// multiples of one step: eight roundings of float32 at most.
const FoldedSlack = 0x1p-21

// Step returns the largest scale of which all numbers are multiples, by whole numbers of at most the given magnitude, with a relative
// difference of at most slack (0: bit for bit). It is 0 where all numbers are 0. NaN and infinite numbers are no multiples of anything.
func Step(x []float32, most int, slack float64) (float32, bool) {
	largest := float32(0)
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		return 0, true
	}
	for top := 1; top <= most; top++ {
		s := largest / float32(top)
		below, above := math.Nextafter32(s, 0), math.Nextafter32(s, largest*2)
		for _, c := range []float32{s, below, above, math.Nextafter32(below, 0), math.Nextafter32(above, largest*2)} {
			// largest and the quotient were rounded
			if Multiples(x, c, 0) {
				return c, true
			}
		}
		if slack > 0 && Multiples(x, s, slack) {
			return s, true
		}
	}
	return 0, false
}

// Multiples reports whether all numbers are multiples of a scale as Step has it.
func Multiples(x []float32, s float32, slack float64) bool {
	if !Representable(s) {
		return false
	}
	for _, v := range x {
		back := float32(math.RoundToEven(float64(v/s))) * s
		if !(math.Abs(float64(back)-float64(v)) <= slack*math.Abs(float64(v))) {
			return false
		}
	}
	return true
}

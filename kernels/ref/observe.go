package ref

import "math"

// The grid on which values are counted: 1,024 equal bins per octave of |x|, which is float32 bits >> 13, per sign. The
// counters of a histogram are
//
//	[0, BinZeros)                      zeros and denormals, all alike: which of them is incremented does not matter
//	BinZeros                           positive values below the lowest octave kept apart
//	BinZeros + 1 + 1024*o + i          bin i of octave o, counted from the lowest one kept apart
//	BinSide(octaves) further on        the same for negative values
const (
	BinShift      = 13
	BinsPerOctave = 1024
	BinZeros      = 16
)

// BinSide is how many counters the values of one sign have where so many octaves are kept apart.
func BinSide(octaves int) int { return 1 + octaves*BinsPerOctave }

// Bin returns the counter of a finite v whose exponent field is below low+octaves; 0 for zeros and denormals. low is the
// lowest exponent field that is kept apart.
func Bin(v float32, low, octaves int) int {
	bits := math.Float32bits(v)
	exponent, bin := int(bits>>23&255), int(bits>>BinShift&(BinsPerOctave-1))
	if exponent == 0 {
		return 0
	}
	counter := BinZeros
	if exponent >= low {
		counter += 1 + (exponent-low)*BinsPerOctave + bin
	}
	if bits>>31 != 0 {
		counter += BinSide(octaves)
	}
	return counter
}

// MinMax returns the extremes of the finite elements of x, zeros as +0, and whether all are finite. Without finite elements lo
// is +Inf and hi -Inf.
func MinMax(x []float32) (lo, hi float32, finite bool) {
	lo, hi, finite = float32(math.Inf(1)), float32(math.Inf(-1)), true
	for _, v := range x {
		if v-v != 0 {
			finite = false
			continue
		}
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo + 0, hi + 0, finite
}

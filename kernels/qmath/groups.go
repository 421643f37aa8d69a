package qmath

import "math"

// GroupMax is the largest magnitude of a code of an int8 group: -128 does not occur.
const GroupMax = 127

// QuantizeGroups quantizes x symmetrically in groups of size neighbours, the last of which may be shorter:
//
//	scale = max|x| / 127 in float32,   code = round(x / scale), a true division in float32
//
// codes has a place for every element of x and scales one for every group. A group of zeros has scale and codes 0, and so has one
// whose scale underflows to 0. x is finite. This is Q8_0 of llama2.c: its exporter rounds weights with HalfEven, its runq.c
// activations with HalfAwayFromZero.
func QuantizeGroups(codes []int8, scales, x []float32, size int, r Rounding) {
	for g := range scales {
		group, out := x[g*size:min((g+1)*size, len(x))], codes[g*size:]
		most := float32(0)
		for _, v := range group {
			most = max(most, Abs32(v))
		}
		scale := most / GroupMax
		scales[g] = scale
		for i, v := range group {
			out[i] = groupCode(v, scale, r)
		}
	}
}

// groupCode is the code of one element of a group with a scale.
func groupCode(v, scale float32, r Rounding) int8 {
	if scale == 0 {
		return 0
	}
	return int8(min(max(r.Round(float64(v/scale)), -GroupMax), GroupMax))
}

// Abs32 is the magnitude of x.
func Abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

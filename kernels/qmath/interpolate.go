package qmath

import "math"

// segments is how many straight lines stand for a function of 16-bit codes, each over 128 of them.
const segments = 512

// Interpolated is a function of int16 codes made of straight lines. Entry k is the value at code 128*k - 32768, in output
// codes, moved so that the error in the middle of the line that begins there is halved. The last entry is the end of the last
// line. This is the table of TFLite's int16 kernels (LUTPopulate and LUTLookup), for grids without zero points.
type Interpolated [segments + 1]int16

// Interpolates reports whether the profile's target tabulates functions from grid x to grid y as Interpolated: TFLite does, where
// both have int16 codes without zero point. A full table of all codes serves elsewhere.
func (p Profile) Interpolates(x, y Grid) bool {
	wide := func(g Grid) bool {
		return g.ZeroPoint == 0 && g.QMin < math.MinInt8 && g.QMin >= math.MinInt16 && g.QMax > math.MaxInt8 && g.QMax <= math.MaxInt16
	}
	return p.Family == TFLite && !p.Own && wide(x) && wide(y)
}

// InterpolationPoints returns where Interpolate reads its function: the beginnings of all lines, then their middles, then the ends.
// They are computed as TFLite does in float32, so that the end of a line is not always the beginning of the next.
func InterpolationPoints(x Grid) []float32 {
	first, step := interpolationStep(x)
	points := make([]float32, 3*segments+1)
	for i := range segments {
		at := float32(first + float32(float32(i)*step))
		points[i], points[segments+i] = at, float32(at+step/2)
		points[2*segments+i] = float32(first + float32(float32(i+1)*step))
	}
	points[3*segments] = float32(x.Scale * math.MaxInt16)
	return points
}

// interpolationStep returns the real number of the lowest code and the distance of the points.
func interpolationStep(x Grid) (first, step float32) {
	first = float32(x.Scale * math.MinInt16)
	return first, float32(float32(x.Scale*math.MaxInt16)-first) / segments
}

// Interpolate makes the entries from the values of a float32 function at InterpolationPoints, in the operations and the order of
// TFLite: everything in float32, rounding half away from zero. NaN counts as 0.
func Interpolate(values []float32, y Grid) (t Interpolated) {
	inverse := 65536 / float32(float32(y.Scale*math.MaxInt16)-float32(y.Scale*math.MinInt16))
	round := func(v float32) float32 {
		if v != v {
			return 0
		}
		return float32(HalfAwayFromZero.Round(float64(v)))
	}
	entry := func(v float32) int16 { return int16(min(max(v, math.MinInt16), math.MaxInt16)) }
	for i := range segments {
		at, middle, next := values[i], values[segments+i], values[2*segments+i]
		begin := round(float32(at * inverse))
		line := round(float32(float32(next*inverse)+begin) / 2)
		off := round(float32(line-round(float32(middle*inverse))) / 2)
		t[i] = entry(begin - off)
	}
	t[segments] = entry(round(float32(values[3*segments] * inverse)))
	return t
}

// At returns the code of the result for code q of the input: on the line from entry 256 + q/128 to the next, half up. As in TFLite
// the difference of two entries is an int16 and wraps.
func (t *Interpolated) At(q int32) int32 {
	k := 256 + q>>7
	slope := int32(t[k+1] - t[k])
	return int32(int16(int32(t[k]) + (slope*(q&127)+64)>>7))
}

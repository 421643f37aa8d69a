package qmath

import "math"

// FMA returns x*y + z rounded once to float32 (IEEE 754 fusedMultiplyAdd, to nearest even).
//
// The product of two float32 is exact in float64. Its sum with z is rounded to odd in float64 (Boldo and Melquiond, "When
// double rounding is odd", 2005), after which the rounding to float32 cannot double round.
func FMA(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if s-s != 0 || s == 0 {
		return float32(s) // NaN, Inf, or exact: p and c that cancel leave no error
	}
	t := s - p
	e := (p - (s - t)) + (c - t) // the exact rounding error of p + c
	if bits := math.Float64bits(s); e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

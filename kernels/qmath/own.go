package qmath

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Arithmetic describes a profile by its parts, for targets whose arithmetic no profile of Profiles has: a multiplier of some width, a shift
// that goes so far, one or two roundings, accumulators and biases of some width, tables of 16-bit codes with a distance of their entries.
type Arithmetic struct {
	// Operators is whose forms the operators other than convolution and matrix product have; their factors have this multiplier. That of
	// ONNX Runtime cannot be chosen: its epilogue is float.
	Operators Family
	// Multiplier is how many bits the multiplier of a factor has, 2 to 31; 0: there is none, and all scales are powers of two. A factor is
	// M * 2^-s with M rounded half away from zero to as many bits; M keeps fewer where s would be more than Shift.
	Multiplier int
	// Shift is the largest right shift of the product, 1 to 62; 0: 62. A factor of 2^-32 and more of which it leaves 0 is an error.
	Shift int
	// Rounding of the shift. Two say that it is done twice, each time to the nearest: a doubling high product by 2^31 and the rest; there
	// are half-up with half-away-from-zero and half-up with half-up, both with 31 bits and no limit of the shift.
	Rounding []Rounding
	// Quantize is the rounding of numbers that become codes, after a division by the scale in float32: inputs, and what comes back from float.
	// Tables are rounded as their grid says.
	Quantize Rounding
	// Accumulator and Bias are how many bits they have, 8 to 64 and not more in the bias; 0: 32, and 64 where a factor has 16 bits.
	Accumulator, Bias int
	// Step is the distance of the entries of tables of 16-bit codes, 0 or 1: one for every code. Nearest reads the entry nearest to the
	// code, by the rounding; otherwise values between two entries lie on a line, truncated towards zero.
	Step    int
	Nearest bool
}

// Profile returns the arithmetic as a profile. An arithmetic that makes no sense is an error.
func (a Arithmetic) Profile(name string) (Profile, error) {
	p := Profile{Name: name, Family: a.Operators, Own: true, Quantize: a.Quantize, Accumulator: a.Accumulator, Bias: a.Bias, Step: a.Step,
		Nearest: a.Nearest}
	switch {
	case a.Operators == ORT || a.Operators > PowerOfTwo:
		return p, fmt.Errorf("arithmetic: operators as those of %s have float factors", a.Operators)
	case a.Multiplier != 0 && (a.Multiplier < 2 || a.Multiplier > 31):
		return p, fmt.Errorf("arithmetic: a multiplier of %d bits: 2 to 31, or 0 for none", a.Multiplier)
	case a.Shift < 0 || a.Shift > 62:
		return p, fmt.Errorf("arithmetic: right shifts of up to %d: 1 to 62", a.Shift)
	case (a.Multiplier == 0) != (a.Operators == PowerOfTwo):
		return p, fmt.Errorf("arithmetic: operators as those of %s, and a multiplier of %d bits: power-of-two is the form without one",
			a.Operators, a.Multiplier)
	case a.Multiplier == 0 && a.Shift != 0:
		return p, fmt.Errorf("arithmetic: the shift of a product without a multiplier")
	case a.Accumulator != 0 && (a.Accumulator < 8 || a.Accumulator > 64), a.Bias != 0 && (a.Bias < 8 || a.Bias > 64):
		return p, fmt.Errorf("arithmetic: accumulators of %d and biases of %d bits: 8 to 64", a.Accumulator, a.Bias)
	case a.Accumulator != 0 && a.Bias > a.Accumulator:
		return p, fmt.Errorf("arithmetic: biases of %d bits in accumulators of %d", a.Bias, a.Accumulator)
	case a.Step < 0 || a.Step > 1<<15 || a.Step > 0 && 1<<16%a.Step != 0:
		return p, fmt.Errorf("arithmetic: entries of tables %d codes apart: a power of two up to 32768", a.Step)
	case a.Nearest && a.Step < 2:
		return p, fmt.Errorf("arithmetic: nothing lies between the entries of a table with one for every code")
	case len(a.Rounding) == 0 || len(a.Rounding) > 2:
		return p, fmt.Errorf("arithmetic: %d roundings: one or two", len(a.Rounding))
	}
	p.Rounding = a.Rounding[0]
	switch {
	case len(a.Rounding) == 1 && a.Multiplier == 0:
		p.Form = ShiftOnly
	case len(a.Rounding) == 1:
		p.Form, p.Bits, p.Most = SingleAny, uint8(a.Multiplier), 62
		if a.Shift != 0 {
			p.Most = uint8(a.Shift)
		}
	case a.Multiplier != 31 || a.Shift != 0:
		return p, fmt.Errorf("arithmetic: two roundings need a multiplier of 31 bits and no limit of the shift")
	case slices.Equal(a.Rounding, []Rounding{HalfUp, HalfAwayFromZero}):
		p.Form, p.Rounding = DoubleUpAway, 0
	case slices.Equal(a.Rounding, []Rounding{HalfUp, HalfUp}):
		p.Form, p.Rounding = DoubleUpUp, 0
	default:
		return p, fmt.Errorf("arithmetic: rounding %s, then %s: half-up, then half-away-from-zero or half-up", a.Rounding[0], a.Rounding[1])
	}
	p.Doc = a.doc()
	return p, nil
}

// doc is the arithmetic in words.
func (a Arithmetic) doc() ProfileDoc {
	d := ProfileDoc{Formula: "round(acc*M / 2^s) + z",
		Factor:    fmt.Sprintf("s_x * s_w/s_y in float64, as M * 2^-s with M of %d bits, half away from zero", a.Multiplier),
		ZeroPoint: after, Exact: "what its target says it is", Differs: "everything else"}
	if a.Shift != 0 {
		d.Factor += fmt.Sprintf(", s at most %d", a.Shift)
	}
	if a.Multiplier == 0 {
		d.Formula, d.Factor = "round(acc * 2^-n) + z", powerOf2
	}
	d.Rounding = a.Rounding[0].String()
	if len(a.Rounding) == 2 {
		d.Rounding = "twice: " + d.Rounding + ", then " + a.Rounding[1].String()
	}
	return d
}

// narrow returns M and Shift of the factor f with an M of fewer bits, and of as many fewer as the right shift would be longer than Most.
// What is left of a factor below 2^-32 may be 0.
func (s Scaling) narrow(f float64) (Multiplier, error) {
	frac, exp := math.Frexp(f)
	right := int(s.Bits) - exp // f = frac * 2^Bits * 2^-right
	m := int64(math.Round(math.Ldexp(frac, int(s.Bits))))
	if over := right - int(s.Most); over > 0 {
		right, m = int(s.Most), int64(math.Round(math.Ldexp(f, int(s.Most))))
	}
	if m == 1<<s.Bits { // rounded up to a power of two: one bit more than M has
		m, right = m>>1, right-1
	}
	if right < 0 {
		return Multiplier{}, scaleErrorf("the factor %g needs more than the %d bits of the multiplier", f, s.Bits)
	}
	if m == 0 && f >= 0x1p-32 { // a smaller one leaves nothing of any sum of 32 bits
		return Multiplier{}, scaleErrorf("the factor %g is 0 with right shifts of up to %d: the arithmetic needs longer ones", f, s.Most)
	}
	if m == 0 {
		return Multiplier{}, nil
	}
	up := 31 - bits.Len64(uint64(m)) // f is m * 2^-right, and so M * 2^-(right+up)
	if right+up > 62 {
		return Multiplier{}, nil
	}
	return Multiplier{M: int32(m << up), Shift: int32(31 - right - up)}, nil
}

// rounded is how far M and Shift are from the factor f that they were made of.
func (s Scaling) rounded(f float64, m Multiplier) float64 { return math.Abs(f - s.factor(m)) }

// coarse is how far the rounding of the multiplier can move the product of an accumulator.
func (s Scaling) coarse(acc int64, m Multiplier) float64 {
	right := float64(s.Most)
	if m.M != 0 {
		right = min(right, float64(s.Bits)-float64(m.Shift)) // of a multiplier with all of its bits
	}
	return math.Abs(float64(acc)) * math.Exp2(-right-1)
}

// Pivots reports whether the profile tabulates functions from grid x to grid y with entries that are Step codes apart.
func (p Profile) Pivots(x, y Grid) bool { return p.Step > 1 && wide(x) == 16 && wide(y) == 16 }

// PivotPoints returns the real numbers of the codes with an entry: -32768 (of codes without sign 0) and every Step-th from there on, the
// last one beyond the codes.
func (p Profile) PivotPoints(x Grid) []float32 {
	points := make([]float32, 1<<16/p.Step+1)
	for i := range points {
		points[i] = x.Dequantize(x.first() + int32(i*p.Step))
	}
	return points
}

// first is the lowest of the 65,536 integers of a grid's type.
func (g Grid) first() int32 {
	if g.QMin < 0 {
		return math.MinInt16
	}
	return 0
}

// PivotEntries returns the entries: the values of a function at PivotPoints, on grid y.
func (p Profile) PivotEntries(values []float32, y Grid) []int32 {
	q := p.TableQuantizer(y)
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = q.At(v)
	}
	return out
}

// AtPivots returns the result for code q on grid x.
func (p Profile) AtPivots(entries []int32, x Grid, q int32) int32 {
	at := int64(q) - int64(x.first())
	if p.Nearest {
		k := p.Rounding.shift(at, -bits.TrailingZeros(uint(p.Step)))
		return entries[min(k, int64(len(entries)-1))]
	}
	k, rest := at/int64(p.Step), at%int64(p.Step)
	a, b := int64(entries[k]), int64(entries[k+1])
	return int32(a + rest*(b-a)/int64(p.Step))
}

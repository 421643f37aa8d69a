package qmath

import (
	"math"
	"math/bits"
)

// LayerNorm is the prepared layer normalization of rows of N codes, on integers. With S and Q the sums of a row's codes and of their
// squares, a code's distance from the mean by the standard deviation is
//
//	u = (N*q - S) / sqrt(N*Q - S*S + eps*N*N/s_x^2)
//
// taken with 16 fractional bits: the radicand has Fraction fractional bits and becomes a root of 31 bits. The result is
// round((u * Gain + Offset) / 2^Shift) + zy. Nothing depends on the zero point of the input. It is qwb's own, for targets without float.
type LayerNorm struct {
	X, Y     Grid
	N        int
	Fraction int     // of the radicand, even
	Epsilon  int64   // eps*N*N/s_x^2, with Fraction fractional bits
	Gain     []int32 // scale/s_y, with Shift-16 fractional bits
	Offset   []int64 // bias/s_y, with Shift fractional bits
	Shift    int     // 16 to 62
	Rounding Rounding
}

const (
	normBits  = 16      // fractional bits of u
	normTerms = 1 << 16 // with more, u leaves 24 bits
)

// PrepareLayerNorm returns the normalization of rows of len(scale) codes on grid x, with its result on grid y; bias is as long.
func (p Profile) PrepareLayerNorm(x, y Grid, scale, bias []float32, eps float64) (LayerNorm, error) {
	n := len(scale)
	o := LayerNorm{X: x, Y: y, N: n, Rounding: p.Quantizer(y).Rounding}
	if err := p.scales(x.Scale, y.Scale); err != nil {
		return o, err
	}
	reach := x.reachAll()
	if n < 1 || n > normTerms || int64(n)*int64(n)*reach > math.MaxInt64>>4/reach {
		return o, scaleErrorf("profile %s: normalization of rows of %d codes: sums of their squares leave 60 bits", p.Name, n)
	}
	o.Fraction = min(60-bits.Len64(uint64(int64(n)*int64(n)*reach*reach)), normBits) &^ 1
	e := eps * float64(n) * float64(n) / (float64(x.Scale) * float64(x.Scale)) * math.Exp2(float64(o.Fraction))
	gain, offset := 0.0, 0.0
	for i := range n {
		gain = max(gain, math.Abs(float64(scale[i])/float64(y.Scale)))
		offset = max(offset, math.Abs(float64(bias[i])/float64(y.Scale)))
	}
	fits := func() bool {
		return gain*math.Exp2(float64(o.Shift-normBits)) < 1<<30 && offset*math.Exp2(float64(o.Shift)) < 1<<60
	}
	for o.Shift = normBits + 30; o.Shift >= normBits && !fits(); {
		o.Shift--
	}
	if !(e < 1<<60) || o.Shift < normBits {
		return o, scaleErrorf("profile %s: normalization from scale %g to %g: epsilon %g, scales up to %g and biases up to %g leave 60 bits",
			p.Name, x.Scale, y.Scale, eps, gain*float64(y.Scale), offset*float64(y.Scale))
	}
	o.Epsilon = int64(HalfEven.Round(e))
	for i := range n {
		o.Gain = append(o.Gain, int32(HalfEven.Round(float64(scale[i])/float64(y.Scale)*math.Exp2(float64(o.Shift-normBits)))))
		o.Offset = append(o.Offset, int64(HalfEven.Round(float64(bias[i])/float64(y.Scale)*math.Exp2(float64(o.Shift)))))
	}
	return o, nil
}

// Row writes the normalization of the codes src to dst, which may be src. Both have N elements.
func (o LayerNorm) Row(dst, src []int32) {
	sum, squares, n := int64(0), int64(0), int64(o.N)
	for _, q := range src {
		d := int64(q) - int64(o.X.QMin)
		sum, squares = sum+d, squares+d*d
	}
	v := (n*squares-sum*sum)<<o.Fraction + o.Epsilon
	left := max(62-bits.Len64(uint64(v)), 0) / 2
	root := max(squareRoot(uint64(v)<<(2*left)), 1)
	for i, q := range src {
		u := o.Rounding.quotient(n*(int64(q)-int64(o.X.QMin))-sum, left+o.Fraction/2+normBits, root)
		dst[i] = clamp64(o.Rounding.shift(u*int64(o.Gain[i])+o.Offset[i], -o.Shift)+int64(o.Y.ZeroPoint), o.Y.QMin, o.Y.QMax)
	}
}

// squareRoot returns the integer part of the root of v, bit by bit.
func squareRoot(v uint64) int64 {
	root := uint64(0)
	for bit := uint64(1) << 62; bit > 0; bit >>= 2 {
		if v >= root+bit {
			v -= root + bit
			root = root>>1 + bit
		} else {
			root >>= 1
		}
	}
	return int64(root)
}

// Deviation returns the deviation of Row. u is at most sqrt(N-1); its root is cut off below 2^-30; the radicand, at least N-1 where u is
// not 0, and u itself are rounded.
func (o LayerNorm) Deviation() float64 {
	gain, most := 0.0, math.Sqrt(float64(o.N))
	for _, g := range o.Gain {
		gain = max(gain, math.Abs(float64(g)))
	}
	unit := math.Exp2(float64(normBits - o.Shift)) // of Gain, in steps
	u := 0x1p-16 + most*(0x1p-30+math.Exp2(-float64(o.Fraction)-2)/float64(max(o.N-1, 1)))
	return (gain*unit*u + most*unit + math.Exp2(-float64(o.Shift))) * slack
}

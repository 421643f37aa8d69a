package ref

import (
	"math"

	"qwb/kernels/elementary"
)

// The functions of this file are what the vector rows compute, to the bit: float32 operations in one order, FMA where it is
// written. Coefficients are minimax fits (Lawson's algorithm on Chebyshev nodes), rounded one by one and the rest fitted
// again. NaN gives NaN. Errors are in units in the last place of the exact result; kerneltest measures them.

const (
	expMin  = -104 // exp is below half of the smallest number
	expMax  = 89   // exp overflows
	log2e   = 0x1.715476p+0
	ln2Hi   = 0x1.62e430p-1
	ln2Lo   = -0x1.05c610p-29
	rounder = 0x1.8p23 // adding it rounds to an integer, half to even

	tanhMax  = 10   // tanh is 1
	erfMax   = 3.93 // erf is 1
	erfSplit = 0.875
	rootHalf = 0x1.6a09e6p-1

	geluTanhLinear = 0x1.988454p+0 // 2*sqrt(2/pi)
	geluTanhCubic  = 0x1.2444f2p-4 // 2*sqrt(2/pi)*0.044715
)

var (
	// expTerms are the factors of r^6 ... r^2 in exp(r) - 1 - r for |r| <= ln(2)/2.
	expTerms = [...]float32{0x1.6b97a6p-10, 0x1.122538p-7, 0x1.5556f6p-5, 0x1.5554b4p-3, 0x1.fffffep-2}
	// erfTerms are the factors of x^11 ... x^1 in erf(x) - x for |x| <= erfSplit.
	erfTerms = [...]float32{-0x1.41323cp-11, 0x1.48c424p-8, -0x1.b6c436p-6, 0x1.ce1d88p-4, -0x1.8126f2p-2, 0x1.06eba6p-3}
	// erfcTerms are the factors of x^6 ... x^1 in log(erfc(x)) + x from erfSplit to erfMax.
	erfcTerms = [...]float32{0x1.c39598p-13, -0x1.a6d68ep-9, 0x1.779b18p-6, -0x1.af603ap-4, -0x1.45777cp-1, -0x1.0738dcp-3}
)

// horner is the polynomial with the given terms, highest first.
func horner(terms []float32, x float32) float32 {
	y := terms[0]
	for _, c := range terms[1:] {
		y = FMA(y, x, c)
	}
	return y
}

// expm1Reduced returns n and exp(x - n*ln(2)) - 1, where n is x/ln(2) rounded to an integer.
func expm1Reduced(x float32) (n, y float32) {
	n = FMA(x, log2e, rounder) - rounder
	r := FMA(n, -ln2Hi, x)
	r = FMA(n, -ln2Lo, r)
	return n, FMA(horner(expTerms[:], r), r*r, r)
}

// scale is x * 2^n, rounded once.
func scale(x, n float32) float32 {
	if n != n {
		return n
	}
	return float32(math.Ldexp(float64(x), int(n)))
}

// Exp is e^x within 1.1 ULP. Results below the smallest normal number are rounded as such.
func Exp(x float32) float32 {
	n, y := expm1Reduced(Limit(x, expMin, expMax))
	return scale(1+y, n)
}

// Sigmoid is 1/(1+e^-x) within 2.5 ULP, down to the denormal results of x near -100.
func Sigmoid(x float32) float32 {
	e := Exp(-magnitude(x))
	if math.Signbit(float64(x)) {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// Tanh is within 2.5 ULP: -m/(2+m) with m = e^(-2|x|) - 1, which loses nothing near 0.
func Tanh(x float32) float32 {
	n, y := expm1Reduced(Limit(magnitude(x), 0, tanhMax) * -2)
	power := scale(1, n)
	m := FMA(power, y, power-1)
	return copySign(magnitude(m)/(2+m), x)
}

// Erf is within 1 ULP: a polynomial up to erfSplit, beyond it 1 - e^p(|x|).
func Erf(x float32) float32 {
	t := Limit(magnitude(x), 0, erfMax)
	if t > erfSplit {
		n, y := expm1Reduced(FMA(horner(erfcTerms[:], t), t, -t))
		return copySign(1-scale(1+y, n), x)
	}
	return FMA(horner(erfTerms[:], x*x), x, x)
}

// Swish is x * sigmoid(alpha*x). With alpha = 1 it is within 3 ULP, for x < -87 within 2^-140.
func Swish(x, alpha float32) float32 { return x * Sigmoid(alpha*x) }

// Gelu is x/2 * (1 + erf(x/sqrt(2))). 1+erf cancels for negative x as it does in the operator's definition: the error is
// within 2 ULP for x >= 0, and within 2^-24*|x| below.
func Gelu(x float32) float32 { return float32(x*0.5) * (1 + Erf(x*rootHalf)) }

// GeluTanh is x/2 * (1 + tanh(u/2)) = x * sigmoid(u), u = 2*sqrt(2/pi) * (x + 0.044715*x^3). The relative error grows with
// |u|, as it does for any float32 u.
func GeluTanh(x float32) float32 {
	u := x * FMA(x*x, geluTanhCubic, geluTanhLinear)
	return x * Sigmoid(u)
}

// HardSigmoid is alpha*x + beta between 0 and 1, product and sum rounded.
func HardSigmoid(x, alpha, beta float32) float32 { return Limit(float32(alpha*x)+beta, 0, 1) }

// Sqrt is the square root, rounded correctly.
func Sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func magnitude(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// copySign sets the sign of x, which has none, to that of y.
func copySign(x, y float32) float32 {
	return math.Float32frombits(math.Float32bits(x) | math.Float32bits(y)&(1<<31))
}

// The functions below are the definitions in float64, with the errors of package math.

// Sigmoid64 is 1/(1+e^-x).
func Sigmoid64(x float64) float64 {
	if x < 0 { // keeps exp from overflowing
		e := elementary.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + elementary.Exp(-x))
}

// Gelu64 is x/2 * (1 + erf(x/sqrt(2))), written with erfc, which does not cancel.
func Gelu64(x float64) float64 { return 0.5 * x * elementary.Erfc(-x/math.Sqrt2) }

// GeluTanh64 is x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x^3))), written with the logistic function.
func GeluTanh64(x float64) float64 {
	return x * Sigmoid64(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))
}

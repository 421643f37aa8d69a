package main

// The functions of one number, written once for all instruction sets. The constants and the order of operations are those of
// ref/math.go; kerneltest holds the results equal to the bit.

// values are registers, by their numbers, of vectors side by side.
type values []int

// unit emits the operations of which functions are made, each on several vectors side by side, so that none waits for the result
// of another. c is a constant.
type unit interface {
	value(i int) values         // the registers of the i-th value
	fill(dst values, c float32) // dst = c
	parameter(off int) values   // a field of the tile, the same register for every vector, until the next use of a constant

	scaled(dst, x values, c float32)           // x*c
	raised(dst, x values, c float32)           // x+c
	multiplyAdd(y, x values, c float32)        // y = y*x + c, fused
	addProduct(y, x values, c float32)         // y = y + x*c, fused
	horner(y, x values, terms []float32)       // y = the polynomial in x with the given terms, highest first
	atLeast(x values, c float32)               // NaN passes, and zeros of either sign
	atMost(x values, c float32)                // the same
	selectGreater(dst, y, x values, c float32) // dst = y where x > c; x is lost
	selectNegative(dst, y, x values)           // dst = y where the sign of x is set
	magnitude(dst, x values)                   // |x|
	negative(dst, x values)                    // -|x|
	copySign(x, y values)                      // gives x, which has no sign, that of y; y is lost
	sum(dst, x, y values)                      // x+y
	difference(dst, x, y values)               // x-y
	product(dst, x, y values)                  // x*y
	quotient(dst, x, y values)                 // x/y
	fused(y, x, z values)                      // y = y*x + z
	fusedMinus(y, x, z values)                 // y = y*x - z
	fusedFrom(y, x, z values)                  // y = z - y*x
	root(x values)                             // the square root
	nearest(x values)                          // the next whole number, the even one of two
	move(dst, x values)                        // dst = x
	scale(x, n, s values)                      // x = x * 2^n rounded once, for n from -150 to 128; n and s are lost
	power(dst, n values)                       // 2^n for n from -126 to 127; dst may be n
}

// consecutive returns n registers from the first on.
func consecutive(first, n int) values {
	v := make(values, n)
	for i := range v {
		v[i] = first + i
	}
	return v
}

const (
	expMin   = -104
	expMax   = 89
	log2e    = 0x1.715476p+0
	ln2Hi    = 0x1.62e430p-1
	ln2Lo    = -0x1.05c610p-29
	rounder  = 0x1.8p23
	tanhMax  = 10
	erfMax   = 3.93
	erfSplit = 0.875
	rootHalf = 0x1.6a09e6p-1

	geluTanhLinear = 0x1.988454p+0
	geluTanhCubic  = 0x1.2444f2p-4
)

var (
	expTerms  = []float32{0x1.6b97a6p-10, 0x1.122538p-7, 0x1.5556f6p-5, 0x1.5554b4p-3, 0x1.fffffep-2}
	erfTerms  = []float32{-0x1.41323cp-11, 0x1.48c424p-8, -0x1.b6c436p-6, 0x1.ce1d88p-4, -0x1.8126f2p-2, 0x1.06eba6p-3}
	erfcTerms = []float32{0x1.c39598p-13, -0x1.a6d68ep-9, 0x1.779b18p-6, -0x1.af603ap-4, -0x1.45777cp-1, -0x1.0738dcp-3}
)

// functions lists them. Each computes the values w.value(0) in place; lo and hi of the tile are parameters.
var functions = []struct {
	name string
	emit func(w unit)
}{
	{"exp", exp}, {"sigmoid", sigmoid}, {"tanh", tanh}, {"erf", erf}, {"swish", swish}, {"gelu", gelu}, {"geluTanh", geluTanh},
	{"hardSigmoid", hardSigmoid}, {"hardSwish", hardSwish}, {"sqrt", func(w unit) { w.root(w.value(0)) }},
	{"round", func(w unit) { w.nearest(w.value(0)) }},
	{"addScalar", withScalar(func(w unit, x, y values) { w.sum(x, x, y) })},
	{"mulScalar", withScalar(func(w unit, x, y values) { w.product(x, x, y) })},
	{"divScalar", withScalar(func(w unit, x, y values) { w.quotient(x, x, y) })},
	{"scalarSub", withScalar(func(w unit, x, y values) { w.difference(x, y, x) })},
	{"scalarDiv", withScalar(func(w unit, x, y values) { w.quotient(x, y, x) })},
}

// expm1Reduced makes n and y = exp(x - n*ln(2)) - 1; x and s are lost.
func expm1Reduced(w unit, n, y, s, x values) {
	w.fill(n, rounder)
	w.addProduct(n, x, log2e)
	w.raised(n, n, -rounder)
	w.addProduct(x, n, -ln2Hi)
	w.addProduct(x, n, -ln2Lo)
	w.horner(y, x, expTerms)
	w.product(s, x, x)
	w.fused(y, s, x)
}

// expInto makes y = exp(x) of x within expMin and expMax; x, n and s are lost.
func expInto(w unit, y, x, n, s values) {
	expm1Reduced(w, n, y, s, x)
	w.raised(y, y, 1)
	w.scale(y, n, s)
}

func exp(w unit) {
	x := w.value(1)
	w.move(x, w.value(0))
	w.atLeast(x, expMin)
	w.atMost(x, expMax)
	expInto(w, w.value(0), x, w.value(2), w.value(3))
}

func sigmoid(w unit) {
	x, e, d, numerator := w.value(0), w.value(3), w.value(4), w.value(2)
	w.negative(w.value(1), x)
	w.atLeast(w.value(1), expMin)
	expInto(w, e, w.value(1), w.value(2), d)
	w.raised(d, e, 1)
	w.fill(numerator, 1)
	w.selectNegative(numerator, e, x)
	w.quotient(x, numerator, d)
}

func tanh(w unit) {
	x, t, n, y, m := w.value(0), w.value(1), w.value(2), w.value(3), w.value(4)
	w.magnitude(t, x)
	w.atMost(t, tanhMax)
	w.scaled(t, t, -2)
	expm1Reduced(w, n, y, m, t)
	w.power(m, n)
	w.raised(t, m, -1)
	w.fused(m, y, t)
	w.raised(t, m, 2)
	w.magnitude(m, m)
	w.quotient(m, m, t)
	w.copySign(m, x)
	w.move(x, m)
}

func erf(w unit) {
	x, t, p, y, n, s := w.value(0), w.value(1), w.value(2), w.value(3), w.value(4), w.value(5)
	w.magnitude(t, x)
	w.atMost(t, erfMax)
	w.horner(p, t, erfcTerms)
	w.fusedMinus(p, t, t)
	expm1Reduced(w, n, y, s, p)
	w.raised(y, y, 1)
	w.power(n, n)
	w.fill(s, 1)
	w.fusedFrom(y, n, s) // 1 - y*2^n
	near := n
	w.product(s, x, x)
	w.horner(near, s, erfTerms)
	w.fused(near, x, x)
	w.copySign(y, x)
	w.selectGreater(near, y, t, erfSplit)
	w.move(x, near)
}

func swish(w unit) {
	x, keep := w.value(0), w.value(5)
	w.move(keep, x)
	w.product(x, x, w.parameter(offLo))
	sigmoid(w)
	w.product(x, x, keep)
}

func gelu(w unit) {
	x, keep := w.value(0), w.value(6)
	w.move(keep, x)
	w.scaled(x, x, rootHalf)
	erf(w)
	w.raised(x, x, 1)
	w.scaled(keep, keep, 0.5)
	w.product(x, x, keep)
}

func geluTanh(w unit) {
	x, keep, u := w.value(0), w.value(5), w.value(1)
	w.move(keep, x)
	w.product(x, x, x)
	w.fill(u, geluTanhCubic)
	w.multiplyAdd(u, x, geluTanhLinear)
	w.move(x, keep)
	w.product(x, x, u)
	sigmoid(w)
	w.product(x, x, keep)
}

// hardSigmoid takes alpha and beta from the limits of the tile.
func hardSigmoid(w unit) {
	x := w.value(0)
	w.product(x, x, w.parameter(offLo))
	w.sum(x, x, w.parameter(offHi))
	w.atLeast(x, 0)
	w.atMost(x, 1)
}

func hardSwish(w unit) {
	x, keep := w.value(0), w.value(1)
	w.move(keep, x)
	hardSigmoid(w)
	w.product(x, x, keep)
}

// withScalar makes a function of x and the tile's lo.
func withScalar(f func(w unit, x, y values)) func(w unit) {
	return func(w unit) { f(w, w.value(0), w.parameter(offLo)) }
}

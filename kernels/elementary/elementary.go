// Package elementary has the functions of package math that some processors compute by instructions of their own, in other last bits than
// the rest: math.Exp is assembly on amd64, with fused multiply-add where there is one, and plain Go in a browser, and what math computes
// with it follows. A build that uses no assembly (purego, wasm) takes the formulas of this package, which are those of math in plain Go
// with every product rounded: the same bits on every processor. Other builds take package math. Where bits matter, these functions stand in
// place of math's; a test looks for what was missed. The rest of math gives the same bits on amd64 and in a browser, Log and Hypot too:
// their assembly computes the formulas of the plain Go, but for wrong logarithms of numbers below 0x1p-1022.
//
// The formulas and coefficients are those of FreeBSD's msun (Sun Microsystems, 1993) and Cephes (S. Moshier), by way of Go's package math.
//
// Unstable: it may change without notice.
package elementary

import "math"

// poly is c[0] + x*(c[1] + x*(c[2] + ...)).
func poly(x float64, c []float64) float64 {
	y := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		y = c[i] + float64(x*y)
	}
	return y
}

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

var expTerms = []float64{1.66666666666666657415e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05, -1.65339022054652515390e-06,
	4.13813679705723846039e-08}

func exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > 7.09782712893383973096e+02:
		return math.Inf(1)
	case x < -7.45133219101941108420e+02:
		return 0
	case math.Abs(x) < 1.0/(1<<28):
		return 1 + x
	}
	k := int(float64(math.Log2E*x) + math.Copysign(0.5, x))
	hi, lo := x-float64(float64(k)*ln2Hi), float64(float64(k)*ln2Lo)
	r := hi - lo
	t := float64(r * r)
	c := r - float64(t*poly(t, expTerms))
	return math.Ldexp(1-((lo-float64(r*c)/(2-c))-hi), k)
}

var (
	tanhP = []float64{-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1}
	tanhQ = []float64{4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1}
	sinhP = []float64{-0.6307673640497716991184787251e+6, -0.8991272022039509355398013511e+5, -0.2894211355989563807284660366e+4,
		-0.2630563213397497062819489e+2}
	sinhQ = []float64{-0.6307673640497716991212077277e+6, 0.1521517378790019070696485176e+5, -0.173678953558233699533450911e+3, 1}
)

func tanh(x float64) float64 {
	z := math.Abs(x)
	switch {
	case z > 0.5*8.8029691931113054295988e+01: // half of log(2**127)
		return math.Copysign(1, x)
	case z >= 0.625:
		return math.Copysign(1-2/(exp(2*z)+1), x)
	case x == 0:
		return x
	}
	s := float64(x * x)
	return x + float64(float64(x*s)*poly(s, tanhP))/poly(s, tanhQ)
}

func sinh(x float64) float64 {
	z := math.Abs(x)
	switch {
	case z > 21:
		z = exp(z) * 0.5
	case z > 0.5:
		e := exp(z)
		z = (e - 1/e) * 0.5
	default:
		s := float64(z * z)
		z = float64(poly(s, sinhP)*z) / poly(s, sinhQ)
	}
	return math.Copysign(z, x)
}

func cosh(x float64) float64 {
	e := exp(math.Abs(x))
	if math.Abs(x) > 21 {
		return e * 0.5
	}
	return (e + 1/e) * 0.5
}

const (
	erx = 8.45062911510467529297e-01
	efx = 1.28379167095512586316e-01
)

// The terms of quotients that erf and erfc are, by ranges of |x|: up to 0.84375, 1.25, 1/0.35, 28.
var (
	erfP = []float64{1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02, -5.77027029648944159157e-03,
		-2.37630166566501626084e-05}
	erfQ = []float64{1, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03, 1.32494738004321644526e-04,
		-3.96022827877536812320e-06}
	erfPA = []float64{-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
		-1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03}
	erfQA = []float64{1, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02, 1.26171219808761642112e-01,
		1.36370839120290507362e-02, 1.19844998467991074170e-02}
	erfRA = []float64{-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01, -6.23753324503260060396e+01,
		-1.62396669462573470355e+02, -1.84605092906711035994e+02, -8.12874355063065934246e+01, -9.81432934416914548592e+00}
	erfSA = []float64{1, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02, 6.45387271733267880336e+02,
		4.29008140027567833386e+02, 1.08635005541779435134e+02, 6.57024977031928170135e+00, -6.04244152148580987438e-02}
	erfRB = []float64{-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01, -1.60636384855821916062e+02,
		-6.37566443368389627722e+02, -1.02509513161107724954e+03, -4.83519191608651397019e+02}
	erfSB = []float64{1, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03, 3.19985821950859553908e+03,
		2.55305040643316442583e+03, 4.74528541206955367215e+02, -2.24409524465858183362e+01}
)

// erfTail is erfc(x) for x from 1.25 to 28.
func erfTail(x float64) float64 {
	s := 1 / float64(x*x)
	r, q := erfRA, erfSA
	if x >= 1/0.35 {
		r, q = erfRB, erfSB
	}
	z := math.Float64frombits(math.Float64bits(x) &^ 0xffffffff)
	return exp(float64(-z*z)-0.5625) * exp(float64((z-x)*(z+x))+poly(s, r)/poly(s, q)) / x
}

func erf(x float64) float64 {
	z := math.Abs(x)
	y := 1.0
	switch {
	case math.IsNaN(x):
		return x
	case z < 2.848094538889218e-306: // avoid underflow
		y = 0.125 * (8.0*z + float64(8*efx*z))
	case z < 1.0/(1<<28):
		y = z + float64(efx*z)
	case z < 0.84375:
		s := float64(z * z)
		y = z + float64(z*(poly(s, erfP)/poly(s, erfQ)))
	case z < 1.25:
		y = erx + poly(z-1, erfPA)/poly(z-1, erfQA)
	case z < 6:
		y = 1 - erfTail(z)
	}
	return math.Copysign(y, x)
}

func erfc(x float64) float64 {
	z := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return x
	case z < 0.84375:
		y := z
		if z >= 1.0/(1<<56) {
			s := float64(z * z)
			q := poly(s, erfP) / poly(s, erfQ)
			if z < 0.25 {
				y = z + float64(z*q)
			} else {
				y = 0.5 + (float64(z*q) + (z - 0.5))
			}
		}
		return 1 - math.Copysign(y, x)
	case z < 1.25:
		q := poly(z-1, erfPA) / poly(z-1, erfQA)
		if x < 0 {
			return 1 + erx + q
		}
		return 1 - erx - q
	case x < -6:
		return 2
	case x < 0:
		return 2 - erfTail(z)
	case x < 28:
		return erfTail(x)
	}
	return 0
}

// pow has the special cases of math.Pow, which needs Exp only for the fraction of y.
func pow(x, y float64) float64 {
	whole, part := math.Modf(math.Abs(y))
	if part == 0 || part == 0.5 && whole == 0 || x <= 0 || math.IsInf(x, 0) || x != x || y != y || x == 1 || whole >= 1<<63 {
		return math.Pow(x, y)
	}
	if part > 0.5 {
		part--
		whole++
	}
	a, e := exp(float64(part*math.Log(x))), 0
	x1, xe := math.Frexp(x)
	for i := int64(whole); i != 0; i >>= 1 {
		if xe < -1<<12 || 1<<12 < xe { // the result overflows, whatever follows
			e += xe
			break
		}
		if i&1 == 1 {
			a *= x1
			e += xe
		}
		x1 *= x1
		xe <<= 1
		if x1 < .5 {
			x1 += x1
			xe--
		}
	}
	if y < 0 {
		a, e = 1/a, -e
	}
	return math.Ldexp(a, e)
}

package emulate

import (
	"math"
	"math/big"
)

// flush makes a subnormal number a zero of its sign.
func flush(x float32) float32 {
	if b := math.Float32bits(x); b&0x7f800000 == 0 {
		return math.Float32frombits(b & 0x80000000)
	}
	return x
}

// saturate clamps to [0, 1]; NaN becomes 0.
func saturate(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

// fma32 rounds a*b + c once. The product is exact in double precision; where rounding the sum twice could differ, it is first
// rounded to odd.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if u := b64(s); u&0x1fffffff != 0x10000000 && u>>52&0x7ff > 1023-126 {
		return float32(s)
	}
	return float32(oddSum(p, float64(c)))
}

// oddSum returns x+y rounded to odd: towards zero, with the last bit set where that was not exact.
func oddSum(x, y float64) float64 {
	s := x + y
	if math.IsInf(s, 0) || s != s {
		return s
	}
	t := s - x
	e := (x - (s - t)) + (y - t) // the exact error of s
	if e == 0 {
		return s
	}
	u := b64(s)
	if u&1 == 0 { // go one step towards the exact sum; the step's result is odd
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return f64(u)
}

// exact returns the exact value of a sum or product, ready to be rounded.
func exact(what string, a, b, c float64) *big.Float {
	x, y, z := newExact(a), newExact(b), newExact(c)
	switch what {
	case "add":
		return x.Add(x, y)
	case "sub":
		return x.Sub(x, y)
	case "mul":
		return x.Mul(x, y)
	}
	return x.Mul(x, y).Add(x, z)
}

// newExact has room for any sum and product of doubles.
func newExact(f float64) *big.Float { return new(big.Float).SetPrec(4500).SetFloat64(f) }

var bigModes = map[string]big.RoundingMode{"rn": big.ToNearestEven, "rz": big.ToZero, "rm": big.ToNegativeInf, "rp": big.ToPositiveInf}

// directed computes with a rounding other than to nearest. What NaN and infinities give is what the operation on doubles gives.
func directed(what, mode string, single bool, a, b, c float64) float64 {
	special := map[string]float64{"add": a + b, "sub": a - b, "mul": a * b, "fma": math.FMA(a, b, c)}[what]
	for _, x := range []float64{a, b, c} {
		if math.IsInf(x, 0) || x != x {
			return special
		}
	}
	e := exact(what, a, b, c)
	if e.Sign() == 0 {
		return zeroOf(what, mode, a, b, c)
	}
	return roundBig(e, mode, single)
}

// zeroOf returns an exact zero with its sign: of a sum of opposite numbers it is minus with rm only.
func zeroOf(what, mode string, a, b, c float64) float64 {
	x, y := a, b
	switch what {
	case "mul":
		return a * b
	case "sub":
		y = -b
	case "fma":
		x, y = a*b, c
		if x != 0 || y != 0 { // they cancel
			x, y = 1, -1
		}
	}
	if math.Signbit(x) == math.Signbit(y) {
		return x
	}
	if mode == "rm" {
		return math.Copysign(0, -1)
	}
	return 0
}

// roundBig rounds to single or double precision, subnormal numbers and overflow included.
func roundBig(e *big.Float, mode string, single bool) float64 {
	prec, low, high := 53, -1074, 1023
	if single {
		prec, low, high = 24, -149, 127
	}
	exp := e.MantExp(nil) - 1 // 1 <= |e|/2^exp < 2
	p := min(prec, exp-low+1)
	if p < 1 { // below half of, or between, zero and the smallest number
		tiny := math.Ldexp(1, low)
		cmp := new(big.Float).Abs(e).Cmp(new(big.Float).SetMantExp(big.NewFloat(1), low-1))
		neg := e.Sign() < 0
		up := mode == "rp" && !neg || mode == "rm" && neg || mode == "rn" && cmp > 0
		r := 0.0
		if up {
			r = tiny
		}
		if neg {
			r = -r
		}
		return r
	}
	r := new(big.Float).SetMode(bigModes[mode]).SetPrec(uint(p)).Set(e)
	if r.MantExp(nil)-1 > high {
		largest := math.MaxFloat64
		if single {
			largest = math.MaxFloat32
		}
		neg := e.Sign() < 0
		if mode == "rz" || mode == "rm" && !neg || mode == "rp" && neg {
			return math.Copysign(largest, float64(e.Sign()))
		}
		return math.Inf(e.Sign())
	}
	f, _ := r.Float64()
	return f
}

// quotient divides with a rounding other than to nearest: enough digits, and one more that says whether there is a rest.
func quotient(mode string, single bool, a, b float64) float64 {
	q := a / b
	if q != q || a == 0 || b == 0 || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return q
	}
	x, y := newExact(a), newExact(b)
	r := new(big.Float).SetPrec(200).SetMode(big.ToZero).Quo(x, y)
	return roundBig(sticky(r, new(big.Float).SetPrec(9000).Mul(newExact(0).Set(r), y).Cmp(x) != 0), mode, single)
}

// sticky adds a tiny part of r's sign where r was cut off.
func sticky(r *big.Float, cut bool) *big.Float {
	if !cut {
		return r
	}
	tiny := new(big.Float).SetMantExp(big.NewFloat(float64(r.Sign())), r.MantExp(nil)-250)
	return new(big.Float).SetPrec(400).Add(r, tiny)
}

// squareRoot is a square root with a rounding other than to nearest.
func squareRoot(mode string, single bool, x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return math.Sqrt(x)
	}
	e := newExact(x)
	r := new(big.Float).SetPrec(200).SetMode(big.ToZero).Sqrt(e)
	square := new(big.Float).SetPrec(9000).Mul(r, r)
	if square.Cmp(e) > 0 { // Sqrt rounds to nearest: step below
		r.Sub(r, new(big.Float).SetMantExp(big.NewFloat(1), r.MantExp(nil)-200))
		square.Mul(r, r)
	}
	return roundBig(sticky(r, square.Cmp(e) != 0), mode, single)
}

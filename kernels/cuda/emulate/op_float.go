package emulate

import "math"

// Single precision gives the canonical NaN, whatever NaN went in; double precision keeps what the host computes.
const nan32 = 0x7fffffff

func bits32(f float32) uint32 {
	if f != f {
		return nan32
	}
	return math.Float32bits(f)
}

func f32(x uint32) float32 { return math.Float32frombits(x) }
func f64(x uint64) float64 { return math.Float64frombits(x) }
func b64(f float64) uint64 { return math.Float64bits(f) }

// floating reports whether the instruction's type is one of floating point.
func (d *decoder) floating() bool {
	for _, m := range d.op.mods {
		if t, ok := parseType(m); ok && (t.kind == kindFloat || t.kind == kindBFloat || t.kind == kindPacked) {
			return true
		}
	}
	return false
}

// rounding is a direction: rn, rz, rm, rp.
func (d *decoder) rounding() string {
	r := d.one("rn", "rz", "rm", "rp")
	if r == "" {
		return "rn"
	}
	return r
}

// precise wraps a function of single precision in what .ftz and .sat ask for.
func precise(f func(a, b, c float32) float32, ftz, sat bool) func(d, a, b, c *lanes32) {
	return func(d, a, b, c *lanes32) {
		for i := range d {
			x, y, z := f32(a[i]), f32(b[i]), f32(c[i])
			if ftz {
				x, y, z = flush(x), flush(y), flush(z)
			}
			r := f(x, y, z)
			if ftz {
				r = flush(r)
			}
			if sat {
				r = saturate(r)
			}
			d[i] = bits32(r)
		}
	}
}

var (
	addF32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = bits32(f32(a[i]) + f32(b[i]))
		}
	}
	subF32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = bits32(f32(a[i]) - f32(b[i]))
		}
	}
	mulF32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = bits32(f32(a[i]) * f32(b[i]))
		}
	}
	fmaF32 = func(d, a, b, c *lanes32) {
		for i := range d {
			d[i] = bits32(fma32(f32(a[i]), f32(b[i]), f32(c[i])))
		}
	}
	addF64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = b64(f64(a[i]) + f64(b[i]))
		}
	}
	subF64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = b64(f64(a[i]) - f64(b[i]))
		}
	}
	mulF64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = b64(f64(a[i]) * f64(b[i]))
		}
	}
	fmaF64 = func(d, a, b, c *lanes64) {
		for i := range d {
			d[i] = b64(math.FMA(f64(a[i]), f64(b[i]), f64(c[i])))
		}
	}
)

// floatArithmetic decodes add, sub, mul and fma.
func (d *decoder) floatArithmetic(in *instr, what string) {
	mode, ftz, sat := d.rounding(), d.has("ftz"), d.has("sat")
	t := d.typ()
	n := 2
	if what == "fma" {
		n = 3
	}
	if t.kind != kindFloat || t.bits == 16 {
		d.halfArithmetic(in, t, what, n, ftz, sat)
		return
	}
	single := map[string]func(a, b, c float32) float32{
		"add": func(a, b, _ float32) float32 { return a + b },
		"sub": func(a, b, _ float32) float32 { return a - b },
		"mul": func(a, b, _ float32) float32 { return a * b },
		"fma": fma32,
	}[what]
	s := map[string]func(d, a, b, c *lanes32){"add": addF32, "sub": subF32, "mul": mulF32, "fma": fmaF32}[what]
	l := map[string]func(d, a, b, c *lanes64){"add": addF64, "sub": subF64, "mul": mulF64, "fma": fmaF64}[what]
	if mode != "rn" {
		single = func(a, b, c float32) float32 {
			return float32(directed(what, mode, true, float64(a), float64(b), float64(c)))
		}
		l = func(d, a, b, c *lanes64) {
			for i := range d {
				d[i] = b64(directed(what, mode, false, f64(a[i]), f64(b[i]), f64(c[i])))
			}
		}
	}
	if ftz || sat || mode != "rn" {
		s = precise(single, ftz, sat)
	}
	if t.bits == 64 && (ftz || sat) {
		d.fail(".ftz and .sat are for f32")
	}
	d.alu(in, t, n, s, l, nil)
}

func opFma(d *decoder, in *instr) { d.floatArithmetic(in, "fma") }

// halfArithmetic computes in f16 and f16x2: an operation of double precision is exact or rounds far below the last bit.
func (d *decoder) halfArithmetic(in *instr, t ptype, what string, n int, ftz, sat bool) {
	if t.kind == kindBFloat || d.has("bf16x2") || ftz || sat || d.has("relu") {
		d.fail("this arithmetic of 16 bits is not supported")
		return
	}
	op := func(a, b, c uint64) uint64 {
		x, y, z := halfToFloat(uint16(a)), halfToFloat(uint16(b)), halfToFloat(uint16(c))
		switch what {
		case "add":
			return uint64(floatToHalf(x + y))
		case "sub":
			return uint64(floatToHalf(x - y))
		case "mul":
			return uint64(floatToHalf(x * y))
		}
		return uint64(floatToHalf(oddSum(x*y, z)))
	}
	if t.kind == kindPacked {
		one := op
		op = func(a, b, c uint64) uint64 {
			return one(a&65535, b&65535, c&65535) | one(a>>16, b>>16, c>>16)<<16
		}
	}
	d.lanewise(in, ptype{kindBits, t.bits}, []ptype{{kindBits, t.bits}, {kindBits, t.bits}, {kindBits, t.bits}}[:n], op)
}

func (d *decoder) floatDivide(in *instr) {
	approx := d.one("approx", "full") != ""
	mode, ftz := d.rounding(), d.has("ftz")
	t := d.typ()
	if approx {
		mode = "rn" // computed on the host; devices differ in the last bits
	}
	if t.bits == 64 && ftz || t.bits == 16 {
		d.fail("this division is not supported")
		return
	}
	single := func(a, b, _ float32) float32 { return a / b }
	s := func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = bits32(f32(a[i]) / f32(b[i]))
		}
	}
	l := func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = b64(f64(a[i]) / f64(b[i]))
		}
	}
	if mode != "rn" {
		single = func(a, b, _ float32) float32 { return float32(quotient(mode, true, float64(a), float64(b))) }
		l = func(d, a, b, _ *lanes64) {
			for i := range d {
				d[i] = b64(quotient(mode, false, f64(a[i]), f64(b[i])))
			}
		}
	}
	if ftz || mode != "rn" {
		s = precise(single, ftz, false)
	}
	d.alu(in, t, 2, s, l, nil)
}

func opRcp(d *decoder, in *instr) {
	d.unary(in, func(x float64) float64 { return 1 / x }, func(mode string, single bool, x float64) float64 {
		return quotient(mode, single, 1, x)
	})
}

func opSqrt(d *decoder, in *instr) { d.unary(in, math.Sqrt, squareRoot) }

// The following have no defined last bits on devices; here they are what the host computes.
func opRsqrt(d *decoder, in *instr) {
	d.unary(in, func(x float64) float64 { return 1 / math.Sqrt(x) }, nil)
}
func opEx2(d *decoder, in *instr)  { d.unary(in, math.Exp2, nil) }
func opLg2(d *decoder, in *instr)  { d.unary(in, math.Log2, nil) }
func opSin(d *decoder, in *instr)  { d.unary(in, math.Sin, nil) }
func opCos(d *decoder, in *instr)  { d.unary(in, math.Cos, nil) }
func opTanh(d *decoder, in *instr) { d.unary(in, math.Tanh, nil) }

// unary makes a function of one operand that is computed in double precision, whose rounding to single equals that of the exact value
// for square roots and quotients.
func (d *decoder) unary(in *instr, f func(x float64) float64, directed func(mode string, single bool, x float64) float64) {
	d.has("approx")
	mode, ftz := d.rounding(), d.has("ftz")
	t := d.typ()
	if t.bits == 16 || directed == nil && mode != "rn" {
		d.fail("this form is not supported")
		return
	}
	single := func(a, _, _ float32) float32 { return float32(f(float64(a))) }
	long := f
	if mode != "rn" {
		single = func(a, _, _ float32) float32 { return float32(directed(mode, true, float64(a))) }
		long = func(x float64) float64 { return directed(mode, false, x) }
	}
	d.alu(in, t, 1, precise(single, ftz, false), func(d, a, _, _ *lanes64) {
		for i := range d {
			d[i] = b64(long(f64(a[i])))
		}
	}, nil)
}

// floatSign makes abs and neg, which move the sign and nothing else.
func (d *decoder) floatSign(in *instr) {
	ftz, t := d.has("ftz"), d.typ()
	absolute := d.op.name == "abs"
	sign := uint64(1) << (t.bits - 1)
	if t.kind == kindPacked {
		sign = 0x80008000
	}
	bits := ptype{kindBits, t.bits}
	if ftz && t.bits == 32 && t.kind == kindFloat {
		d.alu(in, t, 1, precise(func(a, _, _ float32) float32 {
			if absolute {
				return f32(math.Float32bits(a) &^ (1 << 31))
			}
			return -a
		}, true, false), nil, nil)
		return
	}
	if ftz {
		d.fail(".ftz is for f32")
	}
	if t.bits == 32 {
		mask, flip := ^uint32(0), uint32(sign)
		if absolute {
			mask, flip = ^uint32(sign), 0
		}
		d.alu(in, t, 1, func(d, a, _, _ *lanes32) {
			for i := range d {
				d[i] = a[i]&mask ^ flip
			}
		}, nil, nil)
		return
	}
	d.lanewise(in, bits, []ptype{bits}, func(a, _, _ uint64) uint64 {
		if absolute {
			return a &^ sign
		}
		return a ^ sign
	})
}

// floatMinMax makes min and max: a NaN gives way to a number unless .NaN is said, and -0 is less than +0.
func (d *decoder) floatMinMax(in *instr, larger bool) {
	ftz, nan := d.has("ftz"), d.has("NaN")
	t := d.typ()
	if t.kind != kindFloat || t.bits == 16 {
		d.fail("min and max of 16-bit floats are not supported")
		return
	}
	pick := func(a, b float64) float64 {
		switch {
		case a != a && b != b || nan && (a != a || b != b):
			return math.NaN()
		case a != a:
			return b
		case b != b:
			return a
		case a == b && a == 0:
			if math.Signbit(a) == larger {
				return b
			}
			return a
		case a < b != larger:
			return a
		}
		return b
	}
	single := precise(func(a, b, _ float32) float32 { return float32(pick(float64(a), float64(b))) }, ftz, false)
	if !ftz && !nan {
		slow := func(a, b uint32) uint32 { return bits32(float32(pick(float64(f32(a)), float64(f32(b))))) }
		single = func(d, a, b, _ *lanes32) {
			for i := range d {
				x, y := f32(a[i]), f32(b[i])
				switch {
				case x < y != larger && x != y && x == x && y == y:
					d[i] = a[i]
				case x > y != larger && x != y && x == x && y == y:
					d[i] = b[i]
				default: // equal, or NaN
					d[i] = slow(a[i], b[i])
				}
			}
		}
	}
	d.alu(in, t, 2, single,
		func(d, a, b, _ *lanes64) {
			for i := range d {
				d[i] = b64(pick(f64(a[i]), f64(b[i])))
			}
		}, nil)
}

// opCopysign puts the sign of a on b.
func opCopysign(d *decoder, in *instr) {
	t := d.typ()
	bits := ptype{kindBits, t.bits}
	sign := uint64(1) << (t.bits - 1)
	d.lanewise(in, bits, []ptype{bits, bits}, func(a, b, _ uint64) uint64 { return b&^sign | a&sign })
}

func opTestp(d *decoder, in *instr) {
	what := d.one("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := d.typ()
	if !d.operands(2, 2) {
		return
	}
	to := d.dst(d.op.operands[0], classPred).index
	from := d.src(d.op.operands[1], t, false)
	mantissa, exponent := uint64(1)<<52-1, uint64(0x7ff)<<52
	if t.bits == 32 {
		mantissa, exponent = 1<<23-1, 0xff<<23
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		var r uint32
		for i := 0; i < warpSize; i++ {
			x := w.get(from, i)
			e, f := x&exponent, x&mantissa
			var is bool
			switch what {
			case "finite":
				is = e != exponent
			case "infinite":
				is = e == exponent && f == 0
			case "number":
				is = e != exponent || f == 0
			case "notanumber":
				is = e == exponent && f != 0
			case "normal":
				is = e != exponent && e != 0
			case "subnormal":
				is = e == 0 && f != 0
			}
			if is {
				r |= 1 << i
			}
		}
		w.setPred(to, m, r)
	}
}

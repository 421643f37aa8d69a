package emulate

import (
	"math"
	"math/big"
)

// halfToFloat returns the value of an f16.
func halfToFloat(h uint16) float64 {
	sign := 1.0
	if h>>15 != 0 {
		sign = -1
	}
	e, m := int(h>>10&31), float64(h&1023)
	switch {
	case e == 31 && m != 0:
		return math.NaN()
	case e == 31:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(m, -24)
	}
	return sign * math.Ldexp(1024+m, e-25)
}

// floatToHalf rounds to the nearest f16.
func floatToHalf(x float64) uint16 { return narrow(x, "rn", 5, 10) }

// narrow rounds to a format of so many bits of exponent and mantissa, with infinities and NaN.
func narrow(x float64, mode string, exponent, mantissa int) uint16 {
	sign := uint16(b64(x) >> 63 << 15)
	top := uint16(1)<<exponent - 1
	if x != x {
		return 0x7fff
	}
	if math.IsInf(x, 0) {
		return sign | top<<mantissa
	}
	bias := 1<<(exponent-1) - 1
	a := math.Abs(x)
	if a == 0 {
		return sign
	}
	_, e := math.Frexp(a)
	e = max(e-1, 1-bias)               // of the last place, subnormal numbers included
	steps := math.Ldexp(a, mantissa-e) // exact
	n := roundIntegral(steps, magnitude(mode, sign != 0))
	if n >= math.Ldexp(1, mantissa+1) { // rounding went to the next power of two
		n /= 2
		e++
	}
	if e > bias {
		if mode == "rz" || mode == "rm" && sign == 0 || mode == "rp" && sign != 0 {
			return sign | top<<mantissa - 1
		}
		return sign | top<<mantissa
	}
	if n < math.Ldexp(1, mantissa) {
		return sign | uint16(n)
	}
	return sign | uint16(e+bias)<<mantissa | uint16(n)&(1<<mantissa-1)
}

// magnitude turns a direction into that of the absolute value.
func magnitude(mode string, negative bool) string {
	switch {
	case mode == "rm" && negative:
		return "rp"
	case mode == "rm":
		return "rz"
	case mode == "rp" && negative:
		return "rz"
	}
	return mode
}

// roundIntegral rounds to an integral number.
func roundIntegral(x float64, mode string) float64 {
	switch mode {
	case "rz", "rzi":
		return math.Trunc(x)
	case "rm", "rmi":
		return math.Floor(x)
	case "rp", "rpi":
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// conversion is a cvt as its modifiers say.
type conversion struct {
	mode     string // rounding
	integral bool   // of rni and its like
	ftz, sat bool
	relu     bool
	to, from ptype
}

func opCvt(d *decoder, in *instr) {
	c := conversion{}
	c.mode = d.one("rni", "rzi", "rmi", "rpi")
	c.integral = c.mode != ""
	if !c.integral {
		c.mode = d.rounding()
	}
	c.ftz, c.sat, c.relu = d.has("ftz"), d.has("sat"), d.has("relu")
	c.to, c.from = d.typ(), d.typ()
	if c.relu || c.to.kind == kindPacked || c.from.kind == kindPacked || c.to.kind == kindPred {
		d.cvtPacked(in, c)
		return
	}
	if !d.operands(2, 2) {
		return
	}
	if d.fastCvt(in, c) {
		return
	}
	to, from := c.to, c.from
	isFloat := func(t ptype) bool { return t.kind == kindFloat || t.kind == kindBFloat }
	switch {
	case isFloat(to) && isFloat(from):
		d.lanewise(in, to, []ptype{from}, func(a, _, _ uint64) uint64 { return c.floatToFloat(a) })
	case isFloat(to):
		d.lanewise(in, to, []ptype{from}, func(a, _, _ uint64) uint64 { return c.integerToFloat(a) })
	case isFloat(from):
		d.lanewise(in, to, []ptype{from}, func(a, _, _ uint64) uint64 { return c.floatToInteger(a) })
	default:
		d.lanewise(in, to, []ptype{from}, func(a, _, _ uint64) uint64 { return c.integer(a) })
	}
}

// fastCvt has the conversions of indices and codes without a call per lane.
func (d *decoder) fastCvt(in *instr, c conversion) bool {
	ops := d.op.operands
	if c.sat || c.ftz || ops[0].kind != opdName || ops[0].name == "_" || ops[1].kind != opdName || specialValues[ops[1].name] != nil {
		return false
	}
	to, from := d.register(ops[0].name), d.register(ops[1].name)
	if d.err != nil || to.class == classPred || from.class == classPred {
		return false
	}
	if to.class == class32 && from.class == class32 && to.bits == 32 {
		if in.alu32 = fastCvt32(c, from.bits); in.alu32 == nil {
			return false
		}
		in.d, in.a, in.shape = d.def(to).index, d.use(from).index, shapeALU32
		return true
	}
	integer := func(t ptype) bool { return t.kind <= kindSigned }
	if !integer(c.to) || !integer(c.from) {
		return false
	}
	in.shape = shapeExec
	switch {
	case c.to.bits == 64 && c.from.bits == 32 && to.class == class64 && from.class == class32 && from.bits == 32:
		to, from = d.def(to), d.use(from)
		signed := c.from.signed()
		in.exec = func(w *warp, m uint32) {
			q, a := w.open64(to.index, m), &w.r[from.index]
			if signed {
				for i := range q {
					q[i] = uint64(int64(int32(a[i])))
				}
			} else {
				for i := range q {
					q[i] = uint64(a[i])
				}
			}
			w.close64(to.index, m)
		}
		return true
	case c.to.bits == 32 && c.from.bits == 64 && to.class == class32 && to.bits == 32 && from.class == class64:
		to, from = d.def(to), d.use(from)
		in.exec = func(w *warp, m uint32) {
			r, a := w.open32(to.index, m), &w.q[from.index]
			for i := range r {
				r[i] = uint32(a[i])
			}
			w.close32(to.index, m)
		}
		return true
	}
	return false
}

// fastCvt32 converts between whole registers of 32 bits, or from a narrower one whose upper bits are zero. It returns nil for what it
// does not have.
func fastCvt32(c conversion, bits int) func(d, a, b, c *lanes32) {
	single, s32, u32 := ptype{kindFloat, 32}, ptype{kindSigned, 32}, ptype{kindUnsigned, 32}
	switch {
	case c.to == single && c.from == single && bits == 32 && c.integral:
		switch c.mode {
		case "rni":
			return func(d, a, _, _ *lanes32) {
				for i := range d {
					d[i] = bits32(float32(math.RoundToEven(float64(f32(a[i])))))
				}
			}
		case "rmi":
			return func(d, a, _, _ *lanes32) {
				for i := range d {
					d[i] = bits32(float32(math.Floor(float64(f32(a[i])))))
				}
			}
		case "rpi":
			return func(d, a, _, _ *lanes32) {
				for i := range d {
					d[i] = bits32(float32(math.Ceil(float64(f32(a[i])))))
				}
			}
		}
		return func(d, a, _, _ *lanes32) {
			for i := range d {
				d[i] = bits32(float32(math.Trunc(float64(f32(a[i])))))
			}
		}
	case c.to == single && c.from == s32 && bits == 32 && c.mode == "rn":
		return func(d, a, _, _ *lanes32) {
			for i := range d {
				d[i] = math.Float32bits(float32(int32(a[i])))
			}
		}
	case c.to == single && c.from == u32 && bits == 32 && c.mode == "rn":
		return func(d, a, _, _ *lanes32) {
			for i := range d {
				d[i] = math.Float32bits(float32(a[i]))
			}
		}
	case c.to == s32 && c.from == single && bits == 32 && (c.mode == "rni" || c.mode == "rzi"):
		nearest := c.mode == "rni"
		return func(d, a, _, _ *lanes32) {
			for i := range d {
				x := float64(f32(a[i]))
				if nearest {
					x = math.RoundToEven(x)
				}
				switch {
				case x >= -1<<31 && x < 1<<31:
					d[i] = uint32(int32(x))
				case x < 0:
					d[i] = 1 << 31
				case x > 0:
					d[i] = 1<<31 - 1
				default:
					d[i] = 0 // NaN
				}
			}
		}
	case c.to.kind <= kindSigned && c.from.kind <= kindSigned && c.to.bits == 32 && c.from.bits <= 32 && c.from.bits <= bits:
		shift := 32 - c.from.bits
		if c.from.signed() {
			return func(d, a, _, _ *lanes32) {
				for i := range d {
					d[i] = uint32(int32(a[i]<<(shift&31)) >> (shift & 31))
				}
			}
		}
		return func(d, a, _, _ *lanes32) {
			for i := range d {
				d[i] = a[i] << (shift & 31) >> (shift & 31)
			}
		}
	}
	return nil
}

// integer converts between integers: truncation, or clamping.
func (c conversion) integer(a uint64) uint64 {
	if !c.sat {
		return a
	}
	if !c.from.signed() {
		limit := uint64(1)<<(c.to.bits-1)<<1 - 1
		if c.to.signed() {
			limit >>= 1
		}
		return min(a, limit)
	}
	x := int64(a)
	if !c.to.signed() {
		if x < 0 {
			return 0
		}
		return min(a, uint64(1)<<(c.to.bits-1)<<1-1)
	}
	high := int64(uint64(1)<<(c.to.bits-1) - 1)
	return uint64(max(min(x, high), -high-1))
}

// value returns a floating-point operand.
func (c conversion) value(a uint64) float64 {
	switch {
	case c.from.kind == kindBFloat:
		return float64(f32(uint32(a) << 16))
	case c.from.bits == 16:
		return halfToFloat(uint16(a))
	case c.from.bits == 32 && c.ftz:
		return float64(flush(f32(uint32(a))))
	case c.from.bits == 32:
		return float64(f32(uint32(a)))
	}
	return f64(a)
}

func (c conversion) floatToFloat(a uint64) uint64 {
	x := c.value(a)
	if c.integral {
		x = roundIntegral(x, c.mode)
	}
	if c.sat {
		if !(x > 0) {
			x = 0
		}
		x = min(x, 1)
	}
	return c.float(x)
}

// float rounds a double to the destination.
func (c conversion) float(x float64) uint64 {
	mode := c.mode
	if c.integral {
		mode = "rn" // exact where it matters
	}
	switch {
	case c.to.kind == kindBFloat:
		return uint64(narrowBFloat(x, mode))
	case c.to.bits == 16:
		return uint64(narrow(x, mode, 5, 10))
	case c.to.bits == 32:
		y := roundTo32(x, mode)
		if c.ftz {
			y = flush(y)
		}
		return uint64(bits32(y))
	}
	return b64(x)
}

func narrowBFloat(x float64, mode string) uint16 { return narrow(x, mode, 8, 7) }

// roundTo32 rounds a double to single precision in any direction.
func roundTo32(x float64, mode string) float32 {
	if mode == "rn" || x == 0 || x != x || math.IsInf(x, 0) {
		return float32(x)
	}
	return float32(roundBig(newExact(x), mode, true))
}

// integerToFloat converts an integer, extended to 64 bits.
func (c conversion) integerToFloat(a uint64) uint64 {
	x := new(big.Float).SetPrec(64)
	if c.from.signed() {
		x.SetInt64(int64(a))
	} else {
		x.SetUint64(a)
	}
	if x.Sign() == 0 {
		return 0
	}
	switch {
	case c.to.kind == kindBFloat || c.to.bits == 16:
		return c.float(roundOdd(x))
	case c.sat:
		f, _ := x.Float64()
		return c.float(max(min(f, 1), 0))
	}
	r := roundBig(x, c.mode, c.to.bits == 32)
	if c.to.bits == 32 {
		return uint64(math.Float32bits(float32(r)))
	}
	return b64(r)
}

// roundOdd makes a double of x whose further rounding to far fewer bits is that of x.
func roundOdd(x *big.Float) float64 {
	f, acc := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(x).Float64()
	_ = acc
	if new(big.Float).SetPrec(64).SetFloat64(f).Cmp(x) != 0 {
		f = f64(b64(f) | 1)
	}
	return f
}

// floatToInteger rounds to an integral number and clamps it to the destination; NaN is 0, for 64 bits the lowest number.
func (c conversion) floatToInteger(a uint64) uint64 {
	x := c.value(a)
	if x != x {
		return c.notANumber()
	}
	x = roundIntegral(x, c.mode)
	if c.to.signed() {
		limit := math.Ldexp(1, c.to.bits-1)
		switch {
		case x >= limit:
			return uint64(1)<<(c.to.bits-1) - 1
		case x < -limit:
			return -(uint64(1) << (c.to.bits - 1))
		}
		return uint64(int64(x))
	}
	limit := math.Ldexp(1, c.to.bits)
	switch {
	case x <= 0:
		return 0
	case x >= limit:
		return uint64(1)<<(c.to.bits-1)<<1 - 1
	}
	return uint64(x)
}

// notANumber is what NaN becomes: zero in integers of up to 32 bits, the bit of the sign in wider ones, where single or double
// precision goes in.
func (c conversion) notANumber() uint64 {
	if c.to.bits == 64 || c.from.bits == 64 {
		return uint64(1) << (c.to.bits - 1)
	}
	return 0
}

// cvtPacked converts two floats to one register, the first operand to its upper half.
func (d *decoder) cvtPacked(in *instr, c conversion) {
	if c.to.kind != kindPacked || c.from != (ptype{kindFloat, 32}) || c.relu || c.sat || c.ftz {
		d.fail("this conversion is not supported")
		return
	}
	bf := false
	for _, m := range d.op.mods {
		bf = bf || m == "bf16x2"
	}
	d.lanewise(in, ptype{kindBits, 32}, []ptype{{kindBits, 32}, {kindBits, 32}}, func(a, b, _ uint64) uint64 {
		x, y := float64(f32(uint32(a))), float64(f32(uint32(b)))
		if bf {
			return uint64(narrowBFloat(x, c.mode))<<16 | uint64(narrowBFloat(y, c.mode))
		}
		return uint64(narrow(x, c.mode, 5, 10))<<16 | uint64(narrow(y, c.mode, 5, 10))
	})
}

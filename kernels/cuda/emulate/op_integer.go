package emulate

import (
	"math/bits"
)

// lanewise makes an instruction that computes every lane for itself. Operands are passed extended to 64 bits as their types say; of
// the result the bits of type dt are kept and extended to the destination's register.
func (d *decoder) lanewise(in *instr, dt ptype, types []ptype, f func(a, b, c uint64) uint64) {
	if !d.operands(1+len(types), 1+len(types)) {
		return
	}
	d.lanewiseOn(in, dt, d.op.operands[0], types, d.op.operands[1:], f)
}

func (d *decoder) lanewiseOn(in *instr, dt ptype, to operand, types []ptype, from []operand, f func(a, b, c uint64) uint64) {
	dst := d.wideDst(to, dt)
	var src [3]ref
	var st [3]ptype
	for i, t := range types {
		src[i], st[i] = d.src(from[i], t, true), t
	}
	n := len(types)
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			var x [3]uint64
			for k := 0; k < n; k++ {
				x[k] = st[k].extend(w.get(src[k], i))
			}
			w.put(dst, i, dt.extend(f(x[0], x[1], x[2])))
		}
	}
}

// wideDst returns a destination that may be wider than the type written to it.
func (d *decoder) wideDst(o operand, t ptype) ref {
	want := classOf(t)
	if want == class32 && o.kind == opdName && o.name != "_" {
		if r := d.register(o.name); d.err == nil && r.class == class64 {
			want = class64
		}
	}
	r := d.dst(o, want)
	if d.err == nil && r.bits < t.bits {
		d.fail("register %s is too narrow", o.name)
	}
	return r
}

func (w *warp) get(r ref, lane int) uint64 {
	if r.class == class64 {
		return w.q[r.index][lane]
	}
	return uint64(w.r[r.index][lane])
}

func (w *warp) put(r ref, lane int, x uint64) {
	switch {
	case r.class == class64:
		w.q[r.index][lane] = x
	case r.bits < 32:
		w.r[r.index][lane] = uint32(x) & (1<<r.bits - 1)
	default:
		w.r[r.index][lane] = uint32(x)
	}
}

// alu makes an instruction of whole registers of type t with n sources. Narrow types go by f.
func (d *decoder) alu(in *instr, t ptype, n int, f32 func(d, a, b, c *lanes32), f64 func(d, a, b, c *lanes64),
	f func(a, b, c uint64) uint64) {
	if t.bits == 32 && f32 == nil || t.bits == 64 && f64 == nil || t.bits < 32 {
		if f == nil {
			d.fail("type of %d bits is not supported", t.bits)
			return
		}
		d.lanewise(in, t, []ptype{t, t, t}[:n], f)
		return
	}
	if !d.operands(1+n, 1+n) {
		return
	}
	ops := d.op.operands
	in.d = d.dst(ops[0], classOf(t)).index
	for i, to := range []*int32{&in.a, &in.b, &in.c}[:n] {
		*to = d.src(ops[1+i], t, false).index
	}
	if t.bits == 64 {
		in.shape, in.alu64 = shapeALU64, f64
	} else {
		in.shape, in.alu32 = shapeALU32, f32
	}
}

// The arithmetic of whole registers. Signed and unsigned agree where the result is as wide as the operands.
var (
	mov32 = func(d, a, _, _ *lanes32) { *d = *a }
	mov64 = func(d, a, _, _ *lanes64) { *d = *a }
	add32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] + b[i]
		}
	}
	add64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] + b[i]
		}
	}
	sub32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] - b[i]
		}
	}
	sub64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] - b[i]
		}
	}
	mul32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] * b[i]
		}
	}
	mul64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] * b[i]
		}
	}
	mad32 = func(d, a, b, c *lanes32) {
		for i := range d {
			d[i] = a[i]*b[i] + c[i]
		}
	}
	mad64 = func(d, a, b, c *lanes64) {
		for i := range d {
			d[i] = a[i]*b[i] + c[i]
		}
	}
	and32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}
	and64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] & b[i]
		}
	}
	or32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}
	or64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] | b[i]
		}
	}
	xor32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}
	xor64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	}
	not32 = func(d, a, _, _ *lanes32) {
		for i := range d {
			d[i] = ^a[i]
		}
	}
	not64 = func(d, a, _, _ *lanes64) {
		for i := range d {
			d[i] = ^a[i]
		}
	}
	neg32 = func(d, a, _, _ *lanes32) {
		for i := range d {
			d[i] = -a[i]
		}
	}
	neg64 = func(d, a, _, _ *lanes64) {
		for i := range d {
			d[i] = -a[i]
		}
	}
	// shifts by 32 and more give zero, or the sign, as Go's do
	shl32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] << b[i]
		}
	}
	shrU32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = a[i] >> b[i]
		}
	}
	shrS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(int32(a[i]) >> b[i])
		}
	}
	minU32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = min(a[i], b[i])
		}
	}
	maxU32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = max(a[i], b[i])
		}
	}
	minS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(min(int32(a[i]), int32(b[i])))
		}
	}
	maxS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(max(int32(a[i]), int32(b[i])))
		}
	}
	minU64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = min(a[i], b[i])
		}
	}
	maxU64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = max(a[i], b[i])
		}
	}
	minS64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = uint64(min(int64(a[i]), int64(b[i])))
		}
	}
	maxS64 = func(d, a, b, _ *lanes64) {
		for i := range d {
			d[i] = uint64(max(int64(a[i]), int64(b[i])))
		}
	}
	mulHiU32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(uint64(a[i]) * uint64(b[i]) >> 32)
		}
	}
	mulHiS32 = func(d, a, b, _ *lanes32) {
		for i := range d {
			d[i] = uint32(uint64(int64(int32(a[i]))*int64(int32(b[i]))) >> 32)
		}
	}
)

func opMov(d *decoder, in *instr) {
	if !d.operands(2, 2) {
		return
	}
	t, ops := d.typ(), d.op.operands
	switch {
	case t.kind == kindPred:
		d.movPred(in)
	case ops[0].kind == opdVector:
		d.unpack(in, t)
	case ops[1].kind == opdVector:
		d.pack(in, t)
	case counters[ops[1].name] != nil:
		d.counter(in, t)
	default:
		d.alu(in, t, 1, mov32, mov64, func(a, _, _ uint64) uint64 { return a })
	}
}

func (d *decoder) movPred(in *instr) {
	to := d.dst(d.op.operands[0], classPred).index
	from, invert := d.pred(d.op.operands[1])
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.setPred(to, m, w.p[from]^invert) }
}

// counters are special registers that change while a kernel runs. Time is counted in instructions of the warp.
var counters = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return uint64(w.steps) },
	"%clock_hi":       func(w *warp) uint64 { return uint64(w.steps) >> 32 },
	"%clock64":        func(w *warp) uint64 { return uint64(w.steps) },
	"%globaltimer":    func(w *warp) uint64 { return uint64(w.steps) },
	"%activemask":     nil,
	"%globaltimer_lo": func(w *warp) uint64 { return uint64(w.steps) },
	"%globaltimer_hi": func(w *warp) uint64 { return uint64(w.steps) >> 32 },
}

func (d *decoder) counter(in *instr, t ptype) {
	to, value := d.dst(d.op.operands[0], classOf(t)), counters[d.op.operands[1].name]
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 != 0 {
				w.put(to, i, value(w))
			}
		}
	}
}

// pack makes a wide register of the parts of a vector, the first one lowest.
func (d *decoder) pack(in *instr, t ptype) {
	parts := d.op.operands[1].list
	if len(parts) != 2 && len(parts) != 4 {
		d.fail("a vector of %d parts", len(parts))
		return
	}
	to := d.dst(d.op.operands[0], classOf(t))
	part := ptype{kindBits, t.bits / len(parts)}
	var from []ref
	for _, o := range parts {
		from = append(from, d.src(o, part, false))
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			var x uint64
			for k, r := range from {
				x |= part.extend(w.get(r, i)) << (k * part.bits)
			}
			w.put(to, i, x)
		}
	}
}

func (d *decoder) unpack(in *instr, t ptype) {
	parts := d.op.operands[0].list
	if len(parts) != 2 && len(parts) != 4 {
		d.fail("a vector of %d parts", len(parts))
		return
	}
	part := ptype{kindBits, t.bits / len(parts)}
	from := d.src(d.op.operands[1], t, false)
	var to []ref
	for _, o := range parts {
		to = append(to, d.dst(o, class32))
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			x := w.get(from, i)
			for k, r := range to {
				w.put(r, i, part.extend(x>>(k*part.bits)))
			}
		}
	}
}

func opCvta(d *decoder, in *instr) {
	if !d.operands(2, 2) {
		return
	}
	to := d.has("to")
	space := d.one("global", "shared", "local", "const", "param")
	t := d.typ()
	if space == "" || space == "param" || t.bits != 64 {
		d.fail("this address conversion is not supported")
		return
	}
	window := map[string]uint64{"shared": sharedWindow, "local": localWindow}[space]
	if window == 0 { // generic addresses are those of global memory, where constants stand too
		d.alu(in, t, 1, mov32, mov64, nil)
		return
	}
	if to {
		window = -window
	}
	d.lanewise(in, t, []ptype{t}, func(a, _, _ uint64) uint64 { return a + window })
}

// isspacep asks which state space a generic address is in.
func opIsspacep(d *decoder, in *instr) {
	space := d.one("global", "shared", "local", "const")
	if !d.operands(2, 2) {
		return
	}
	to := d.dst(d.op.operands[0], classPred).index
	from := d.src(d.op.operands[1], ptype{kindUnsigned, 64}, false).index
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		var r uint32
		for i, a := range w.q[from] {
			in := "global"
			switch {
			case a-sharedWindow < windowSize:
				in = "shared"
			case a-localWindow < windowSize:
				in = "local"
			}
			if in == space {
				r |= 1 << i
			}
		}
		w.setPred(to, m, r)
	}
}

func opAdd(d *decoder, in *instr) {
	if d.floating() {
		d.floatArithmetic(in, "add")
		return
	}
	if d.has("cc") {
		d.carry(in, "add")
		return
	}
	sat, t := d.has("sat"), d.typ()
	if sat {
		d.saturated(in, t, func(a, b int64) int64 { return a + b })
		return
	}
	d.alu(in, t, 2, add32, add64, func(a, b, _ uint64) uint64 { return a + b })
}

func opSub(d *decoder, in *instr) {
	if d.floating() {
		d.floatArithmetic(in, "sub")
		return
	}
	if d.has("cc") {
		d.carry(in, "sub")
		return
	}
	sat, t := d.has("sat"), d.typ()
	if sat {
		d.saturated(in, t, func(a, b int64) int64 { return a - b })
		return
	}
	d.alu(in, t, 2, sub32, sub64, func(a, b, _ uint64) uint64 { return a - b })
}

func (d *decoder) saturated(in *instr, t ptype, f func(a, b int64) int64) {
	if t != (ptype{kindSigned, 32}) {
		d.fail(".sat is for s32 only")
		return
	}
	d.lanewise(in, t, []ptype{t, t}, func(a, b, _ uint64) uint64 { return uint64(clampS32(f(int64(a), int64(b)))) })
}

func clampS32(x int64) int64 { return max(min(x, 1<<31-1), -1<<31) }

// carry makes add, sub and mad with the condition code, a bit per lane that these instructions alone read and write.
func (d *decoder) carry(in *instr, what string) {
	reads, writes := d.op.name[len(d.op.name)-1] == 'c', d.has("cc")
	if what == "addc" || what == "subc" {
		reads, what = true, what[:3]
	} else {
		reads, writes = false, true
	}
	t := d.typ()
	if !d.operands(3, 3) || t.bits < 32 {
		d.fail("this type has no carry")
		return
	}
	to, a, b := d.dst(d.op.operands[0], classOf(t)), d.src(d.op.operands[1], t, false), d.src(d.op.operands[2], t, false)
	flag := d.carryFlag()
	mask := uint64(1)<<(t.bits-1)<<1 - 1
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		var out uint32
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			var c uint64
			if reads {
				c = uint64(w.p[flag] >> i & 1)
			}
			x, y := w.get(a, i), w.get(b, i)
			var sum, carry uint64
			if what == "add" {
				sum, carry = bits.Add64(x, y, c)
			} else {
				sum, carry = bits.Sub64(x, y, c)
			}
			if t.bits == 32 {
				carry = sum >> 32 & 1
			}
			w.put(to, i, sum&mask)
			out |= uint32(carry) << i
		}
		if writes {
			w.setPred(flag, m, out)
		}
	}
}

// carryFlag returns the predicate that stands for the condition code.
func (d *decoder) carryFlag() int32 {
	if d.condition == 0 {
		d.condition = d.fresh(classPred).index
	}
	return d.keep(ref{classPred, d.condition, 1}).index
}

func opAddc(d *decoder, in *instr) { d.carry(in, "addc") }
func opSubc(d *decoder, in *instr) { d.carry(in, "subc") }

func opMul(d *decoder, in *instr) {
	if d.floating() {
		d.floatArithmetic(in, "mul")
		return
	}
	part, t := d.one("lo", "hi", "wide"), d.typ()
	switch {
	case part == "wide":
		d.wide(in, t, false)
	case part == "hi":
		f32 := mulHiU32
		if t.signed() {
			f32 = mulHiS32
		}
		d.alu(in, t, 2, f32, nil, mulHi(t))
	default:
		d.alu(in, t, 2, mul32, mul64, func(a, b, _ uint64) uint64 { return a * b })
	}
}

// mulHi returns the upper half of a product.
func mulHi(t ptype) func(a, b, c uint64) uint64 {
	return func(a, b, _ uint64) uint64 {
		if t.bits < 64 {
			return a * b >> t.bits
		}
		hi, _ := bits.Mul64(a, b)
		if t.signed() {
			if int64(a) < 0 {
				hi -= b
			}
			if int64(b) < 0 {
				hi -= a
			}
		}
		return hi
	}
}

func opMad(d *decoder, in *instr) {
	if d.floating() {
		d.floatArithmetic(in, "fma")
		return
	}
	part, sat := d.one("lo", "hi", "wide"), d.has("sat")
	if d.has("cc") {
		d.fail("mad.cc is not supported")
		return
	}
	t := d.typ()
	switch {
	case part == "wide":
		d.wide(in, t, true)
	case part == "hi":
		f := mulHi(t)
		d.alu(in, t, 3, nil, nil, func(a, b, c uint64) uint64 {
			if sat {
				return uint64(clampS32(int64(t.extend(f(a, b, 0))) + int64(c)))
			}
			return f(a, b, 0) + c
		})
	default:
		if sat {
			d.fail(".sat is for mad.hi only")
		}
		d.alu(in, t, 3, mad32, mad64, func(a, b, c uint64) uint64 { return a*b + c })
	}
}

// wide makes mul.wide and mad.wide: the result has twice the bits.
func (d *decoder) wide(in *instr, t ptype, add bool) {
	n := 3
	if add {
		n = 4
	}
	if !d.operands(n, n) {
		return
	}
	double := ptype{t.kind, 2 * t.bits}
	if t.bits == 16 {
		types := []ptype{t, t, double}[:n-1]
		d.lanewise(in, double, types, func(a, b, c uint64) uint64 { return a*b + c })
		return
	}
	if t.bits != 32 {
		d.fail("no wide product of %d bits", t.bits)
		return
	}
	ops := d.op.operands
	to, a, b, c := d.dst(ops[0], class64).index, d.src(ops[1], t, false).index, d.src(ops[2], t, false).index, int32(0)
	if add {
		c = d.src(ops[3], double, false).index
	}
	in.shape = shapeExec
	signed := t.signed()
	in.exec = func(w *warp, m uint32) {
		q, x, y, z := w.open64(to, m), &w.r[a], &w.r[b], &w.q[c]
		switch {
		case signed && add:
			for i := range q {
				q[i] = uint64(int64(int32(x[i]))*int64(int32(y[i]))) + z[i]
			}
		case signed:
			for i := range q {
				q[i] = uint64(int64(int32(x[i])) * int64(int32(y[i])))
			}
		case add:
			for i := range q {
				q[i] = uint64(x[i])*uint64(y[i]) + z[i]
			}
		default:
			for i := range q {
				q[i] = uint64(x[i]) * uint64(y[i])
			}
		}
		w.close64(to, m)
	}
}

// opMul24 multiplies the lowest 24 bits.
func opMul24(d *decoder, in *instr) {
	part, t := d.one("lo", "hi"), d.typ()
	d.lanewise(in, t, []ptype{t, t}, func(a, b, _ uint64) uint64 { return mul24(t, part, a, b) })
}

func opMad24(d *decoder, in *instr) {
	part, t := d.one("lo", "hi"), d.typ()
	d.lanewise(in, t, []ptype{t, t, t}, func(a, b, c uint64) uint64 { return mul24(t, part, a, b) + c })
}

func mul24(t ptype, part string, a, b uint64) uint64 {
	narrow := ptype{t.kind, 24}
	x := narrow.extend(a) * narrow.extend(b)
	if part == "hi" {
		return x >> 16
	}
	return x
}

func opDiv(d *decoder, in *instr) {
	if d.floating() {
		d.floatDivide(in)
		return
	}
	t := d.typ()
	var f32 func(d, a, b, c *lanes32)
	if t.bits == 32 && t.signed() {
		f32 = func(d, a, b, _ *lanes32) {
			for i := range d {
				switch b[i] {
				case 0:
					d[i] = allLanes
				case allLanes:
					d[i] = -a[i]
				default:
					d[i] = uint32(int32(a[i]) / int32(b[i]))
				}
			}
		}
	} else if t.bits == 32 {
		f32 = func(d, a, b, _ *lanes32) {
			for i := range d {
				if b[i] == 0 {
					d[i] = allLanes
				} else {
					d[i] = a[i] / b[i]
				}
			}
		}
	}
	d.alu(in, t, 2, f32, nil, func(a, b, _ uint64) uint64 {
		switch {
		case b == 0:
			return allOnes // what devices give; the manual leaves it open
		case t.signed() && int64(b) == -1:
			return -a
		case t.signed():
			return uint64(int64(a) / int64(b))
		}
		return a / b
	})
}

func opRem(d *decoder, in *instr) {
	t := d.typ()
	d.lanewise(in, t, []ptype{t, t}, func(a, b, _ uint64) uint64 {
		switch {
		case b == 0:
			return a
		case t.signed() && int64(b) == -1:
			return 0
		case t.signed():
			return uint64(int64(a) % int64(b))
		}
		return a % b
	})
}

const allOnes = 1<<64 - 1

func opAbs(d *decoder, in *instr) {
	if d.floating() {
		d.floatSign(in)
		return
	}
	t := d.typ()
	d.lanewise(in, t, []ptype{t}, func(a, _, _ uint64) uint64 {
		if int64(a) < 0 {
			return -a
		}
		return a
	})
}

func opNeg(d *decoder, in *instr) {
	if d.floating() {
		d.floatSign(in)
		return
	}
	d.alu(in, d.typ(), 1, neg32, neg64, func(a, _, _ uint64) uint64 { return -a })
}

func opMin(d *decoder, in *instr) { d.minMax(in, false) }
func opMax(d *decoder, in *instr) { d.minMax(in, true) }

func (d *decoder) minMax(in *instr, larger bool) {
	if d.floating() {
		d.floatMinMax(in, larger)
		return
	}
	t := d.typ()
	f32 := map[[2]bool]func(d, a, b, c *lanes32){{false, false}: minU32, {false, true}: minS32, {true, false}: maxU32,
		{true, true}: maxS32}[[2]bool{larger, t.signed()}]
	f64 := map[[2]bool]func(d, a, b, c *lanes64){{false, false}: minU64, {false, true}: minS64, {true, false}: maxU64,
		{true, true}: maxS64}[[2]bool{larger, t.signed()}]
	d.alu(in, t, 2, f32, f64, func(a, b, _ uint64) uint64 {
		if t.signed() && int64(a) < int64(b) != larger || !t.signed() && a < b != larger {
			return a
		}
		return b
	})
}

func opAnd(d *decoder, in *instr) {
	d.logic(in, and32, and64, func(a, b uint64) uint64 { return a & b })
}

func opOr(d *decoder, in *instr) {
	d.logic(in, or32, or64, func(a, b uint64) uint64 { return a | b })
}

func opXor(d *decoder, in *instr) {
	d.logic(in, xor32, xor64, func(a, b uint64) uint64 { return a ^ b })
}

func (d *decoder) logic(in *instr, f32 func(d, a, b, c *lanes32), f64 func(d, a, b, c *lanes64), f func(a, b uint64) uint64) {
	t := d.typ()
	if t.kind != kindPred {
		d.alu(in, t, 2, f32, f64, func(a, b, _ uint64) uint64 { return f(a, b) })
		return
	}
	if !d.operands(3, 3) {
		return
	}
	to := d.dst(d.op.operands[0], classPred).index
	a, ia := d.pred(d.op.operands[1])
	b, ib := d.pred(d.op.operands[2])
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		w.setPred(to, m, uint32(f(uint64(w.p[a]^ia), uint64(w.p[b]^ib))))
	}
}

func opNot(d *decoder, in *instr) {
	t := d.typ()
	if t.kind != kindPred {
		d.alu(in, t, 1, not32, not64, func(a, _, _ uint64) uint64 { return ^a })
		return
	}
	if !d.operands(2, 2) {
		return
	}
	to := d.dst(d.op.operands[0], classPred).index
	a, invert := d.pred(d.op.operands[1])
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.setPred(to, m, ^(w.p[a] ^ invert)) }
}

func opCnot(d *decoder, in *instr) {
	t := d.typ()
	d.lanewise(in, t, []ptype{t}, func(a, _, _ uint64) uint64 {
		if a == 0 {
			return 1
		}
		return 0
	})
}

func opShl(d *decoder, in *instr) { d.shift(in, true) }
func opShr(d *decoder, in *instr) { d.shift(in, false) }

// shift makes shl and shr, whose second operand has 32 bits whatever the type.
func (d *decoder) shift(in *instr, left bool) {
	t := d.typ()
	amount := ptype{kindUnsigned, 32}
	if t.bits == 32 {
		f := shrU32
		if left {
			f = shl32
		} else if t.signed() {
			f = shrS32
		}
		d.alu(in, t, 2, f, nil, nil)
		return
	}
	if t.bits == 64 && d.operands(3, 3) {
		ops := d.op.operands
		to, a, b := d.dst(ops[0], class64).index, d.src(ops[1], t, false).index, d.src(ops[2], amount, false).index
		signed := t.signed()
		in.shape = shapeExec
		in.exec = func(w *warp, m uint32) {
			q, x, y := w.open64(to, m), &w.q[a], &w.r[b]
			switch {
			case left:
				for i := range q {
					q[i] = x[i] << y[i]
				}
			case signed:
				for i := range q {
					q[i] = uint64(int64(x[i]) >> y[i])
				}
			default:
				for i := range q {
					q[i] = x[i] >> y[i]
				}
			}
			w.close64(to, m)
		}
		return
	}
	d.lanewise(in, t, []ptype{t, amount}, func(a, b, _ uint64) uint64 {
		switch {
		case left:
			return a << b
		case t.signed():
			return uint64(int64(a) >> b)
		}
		return a >> b
	})
}

// opShf shifts the pair of two registers, b above a, and keeps the upper word of a left and the lower word of a right shift.
func opShf(d *decoder, in *instr) {
	left := d.one("l", "r") == "l"
	wrap := d.one("wrap", "clamp") == "wrap"
	t := d.typ()
	d.alu(in, t, 3, func(r, a, b, c *lanes32) {
		for i := range r {
			n := min(c[i], 32)
			if wrap {
				n = c[i] & 31
			}
			pair := uint64(b[i])<<32 | uint64(a[i])
			if left {
				r[i] = uint32(pair << n >> 32)
			} else {
				r[i] = uint32(pair >> n)
			}
		}
	}, nil, nil)
}

func opPopc(d *decoder, in *instr) {
	d.count(in, func(a uint64, _ int) uint64 { return uint64(bits.OnesCount64(a)) })
}

func opClz(d *decoder, in *instr) {
	d.count(in, func(a uint64, n int) uint64 { return uint64(bits.LeadingZeros64(a) - (64 - n)) })
}

func (d *decoder) count(in *instr, f func(a uint64, n int) uint64) {
	t := d.typ()
	d.lanewise(in, ptype{kindUnsigned, 32}, []ptype{t}, func(a, _, _ uint64) uint64 { return f(a, t.bits) })
}

// opBfind finds the highest bit that is not the sign, counted from below, or from above with shiftamt.
func opBfind(d *decoder, in *instr) {
	shift, t := d.has("shiftamt"), d.typ()
	d.lanewise(in, ptype{kindUnsigned, 32}, []ptype{t}, func(a, _, _ uint64) uint64 {
		if t.signed() && int64(a) < 0 {
			a = ^a
		}
		if a == 0 {
			return 1<<32 - 1
		}
		at := uint64(63 - bits.LeadingZeros64(a))
		if shift {
			return uint64(t.bits-1) - at
		}
		return at
	})
}

func opBrev(d *decoder, in *instr) {
	t := d.typ()
	d.lanewise(in, t, []ptype{t}, func(a, _, _ uint64) uint64 { return bits.Reverse64(a) >> (64 - t.bits) })
}

// opBfe extracts a field: bits from position b on, c of them, sign-extended for signed types.
func opBfe(d *decoder, in *instr) {
	t := d.typ()
	byte8 := ptype{kindUnsigned, 32}
	if t.bits == 32 {
		signed := t.signed()
		d.alu(in, t, 3, func(d, a, b, c *lanes32) {
			for i := range d {
				d[i] = bfe32(a[i], b[i]&255, c[i]&255, signed)
			}
		}, nil, nil)
		return
	}
	d.lanewise(in, t, []ptype{t, byte8, byte8}, func(a, b, c uint64) uint64 {
		pos, n, msb := int(b&255), int(c&255), t.bits-1
		var sign uint64
		if t.signed() && n != 0 {
			sign = a >> min(pos+n-1, msb) & 1
		}
		var x uint64
		for i := 0; i <= msb; i++ {
			bit := sign
			if i < n && pos+i <= msb {
				bit = a >> (pos + i) & 1
			}
			x |= bit << i
		}
		return x
	})
}

func bfe32(a, pos, n uint32, signed bool) uint32 {
	if n == 0 {
		return 0
	}
	if !signed {
		if n >= 32 {
			return a >> pos
		}
		return a >> pos & (1<<n - 1)
	}
	x := uint32(int32(a) >> pos)
	if n >= 32 || pos+n >= 32 {
		return x
	}
	return uint32(int32(x<<(32-n)) >> (32 - n))
}

// opBfi puts the lowest d bits of a into b at position c.
func opBfi(d *decoder, in *instr) {
	t := d.typ()
	if !d.operands(5, 5) {
		return
	}
	ops := d.op.operands
	word := ptype{kindUnsigned, 32}
	to, a, b := d.dst(ops[0], classOf(t)), d.src(ops[1], t, false), d.src(ops[2], t, false)
	at, n := d.src(ops[3], word, false), d.src(ops[4], word, false)
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			pos, n := w.get(at, i)&255, w.get(n, i)&255
			field := (uint64(1)<<n - 1) << pos
			w.put(to, i, w.get(b, i)&^field|w.get(a, i)<<pos&field)
		}
	}
}

// opPrmt picks four bytes of the eight of b and a, by a nibble each of c; its highest bit spreads the byte's sign instead.
func opPrmt(d *decoder, in *instr) {
	mode := d.one("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	t := d.typ()
	if mode == "" {
		d.alu(in, t, 3, func(r, a, b, c *lanes32) {
			for i := range r {
				pair, s := uint64(b[i])<<32|uint64(a[i]), c[i]
				if s&0x8888 != 0 {
					r[i] = prmt("", pair, s)
					continue
				}
				r[i] = uint32(pair>>(s&7*8))&255 | uint32(pair>>(s>>4&7*8))&255<<8 | uint32(pair>>(s>>8&7*8))&255<<16 |
					uint32(pair>>(s>>12&7*8))<<24
			}
		}, nil, nil)
		return
	}
	d.alu(in, t, 3, func(r, a, b, c *lanes32) {
		for i := range r {
			r[i] = prmt(mode, uint64(b[i])<<32|uint64(a[i]), c[i])
		}
	}, nil, nil)
}

func prmt(mode string, pair uint64, sel uint32) uint32 {
	var r uint32
	for k := uint32(0); k < 4; k++ {
		n, s := sel&3, sel>>(4*k)&15
		switch mode {
		case "f4e":
			s = n + k
		case "b4e":
			s = (n - k) & 7
		case "rc8":
			s = n
		case "ecl":
			s = max(k, n)
		case "ecr":
			s = min(k, n)
		case "rc16":
			s = n&1*2 + k&1
		}
		x := uint32(pair >> (8 * (s & 7)) & 255)
		if s&8 != 0 {
			x = uint32(int32(x<<24)>>31) & 255
		}
		r |= x << (8 * k)
	}
	return r
}

// opLop3 is any logical function of three operands, by its truth table.
func opLop3(d *decoder, in *instr) {
	t := d.typ()
	if !d.operands(5, 5) {
		return
	}
	table := d.op.operands[4]
	if table.kind != opdInt {
		d.fail("the table of lop3 is no constant")
		return
	}
	ops := d.op.operands
	in.d, in.a = d.dst(ops[0], class32).index, d.src(ops[1], t, false).index
	in.b, in.c = d.src(ops[2], t, false).index, d.src(ops[3], t, false).index
	in.shape = shapeALU32
	lut := table.bits
	in.alu32 = func(r, a, b, c *lanes32) {
		for i := range r {
			var x uint32
			for k := 0; k < 8; k++ {
				if lut>>k&1 == 0 {
					continue
				}
				y := ^uint32(0)
				for bit, v := range [3]uint32{c[i], b[i], a[i]} {
					if k>>bit&1 == 0 {
						v = ^v
					}
					y &= v
				}
				x |= y
			}
			r[i] = x
		}
	}
}

// opSad adds |a-b| to c.
func opSad(d *decoder, in *instr) {
	t := d.typ()
	d.lanewise(in, t, []ptype{t, t, t}, func(a, b, c uint64) uint64 {
		if t.signed() && int64(a) < int64(b) || !t.signed() && a < b {
			a, b = b, a
		}
		return c + a - b
	})
}

// opDp4a adds the four products of the bytes of a and b to c.
func opDp4a(d *decoder, in *instr) {
	ta, tb := d.typ(), d.typ()
	d.dot(in, ta, tb, func(d, a, b, c *lanes32, sa, sb bool) {
		switch {
		case sa && sb:
			for i := range d {
				x, y := int32(a[i]), int32(b[i])
				d[i] = c[i] + uint32(x<<24>>24*(y<<24>>24)+x<<16>>24*(y<<16>>24)+x<<8>>24*(y<<8>>24)+x>>24*(y>>24))
			}
		case sb:
			for i := range d {
				x, y := int32(a[i]), int32(b[i])
				d[i] = c[i] + uint32(x&255*(y<<24>>24)+x>>8&255*(y<<16>>24)+x>>16&255*(y<<8>>24)+x>>24&255*(y>>24))
			}
		default:
			for i := range d {
				x := c[i]
				for k := 0; k < 32; k += 8 {
					x += part8(a[i]>>k, sa) * part8(b[i]>>k, sb)
				}
				d[i] = x
			}
		}
	})
}

// opDp2a adds the two products of the halves of a and the lower or upper two bytes of b to c.
func opDp2a(d *decoder, in *instr) {
	shift := 0
	if d.one("lo", "hi") == "hi" {
		shift = 16
	}
	ta, tb := d.typ(), d.typ()
	d.dot(in, ta, tb, func(d, a, b, c *lanes32, sa, sb bool) {
		for i := range d {
			y := b[i] >> shift
			d[i] = c[i] + part16(a[i], sa)*part8(y, sb) + part16(a[i]>>16, sa)*part8(y>>8, sb)
		}
	})
}

func part8(x uint32, signed bool) uint32 {
	if signed {
		return uint32(int32(int8(x)))
	}
	return x & 255
}

func part16(x uint32, signed bool) uint32 {
	if signed {
		return uint32(int32(int16(x)))
	}
	return x & 65535
}

func (d *decoder) dot(in *instr, ta, tb ptype, f func(d, a, b, c *lanes32, sa, sb bool)) {
	if ta.bits != 32 || tb.bits != 32 {
		d.fail("the types must be u32 or s32")
		return
	}
	sa, sb := ta.signed(), tb.signed()
	d.alu(in, ptype{kindBits, 32}, 3, func(d, a, b, c *lanes32) { f(d, a, b, c, sa, sb) }, nil, nil)
}

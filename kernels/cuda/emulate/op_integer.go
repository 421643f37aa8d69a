package emulate

import "math/bits"

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
	f32 := map[[2]bool]func(d, a, b, c *lanes32){{false, false}: minLanes[uint32], {false, true}: minS32, {true, false}: maxLanes[uint32],
		{true, true}: maxS32}[[2]bool{larger, t.signed()}]
	f64 := map[[2]bool]func(d, a, b, c *lanes64){{false, false}: minLanes[uint64], {false, true}: minS64, {true, false}: maxLanes[uint64],
		{true, true}: maxS64}[[2]bool{larger, t.signed()}]
	d.alu(in, t, 2, f32, f64, func(a, b, _ uint64) uint64 {
		if t.signed() && int64(a) < int64(b) != larger || !t.signed() && a < b != larger {
			return a
		}
		return b
	})
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

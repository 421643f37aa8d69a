package emulate

import "math/bits"

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

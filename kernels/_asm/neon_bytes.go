package main

import "fmt"

// Operations on bytes and on integer sums on NEON.

var neonBytes = []neonFunction{
	{"addCodesNEON", "codes8", func(n *neon) { n.addCodes(false) }},
	{"addFusedNEON", "codes8", func(n *neon) { n.addCodes(true) }},
	{"toCodesNEON", "codes8", func(n *neon) { n.toCodes("FCVTNS.4S") }},
	{"toCodesAwayNEON", "codes8", func(n *neon) { n.toCodes("FCVTAS.4S") }},
	{"fromCodesNEON", "codes8", func(n *neon) {
		const dst, a, count, free, zero, scale = 1, 2, 3, 29, 30, 31
		n.get(dst, "codes8_real", "codes8_a", "codes8_n")
		n.spread("codes8_za", zero)
		n.spread("codes8_fa", scale)
		n.elements(count, 4, func(p part) {
			x := consecutive(0, p.vecs)
			n.loadBytes(p, a, 8)
			n.widen(p, x[0], 8, free)
			n.each("SUB.4S", x, x, same(zero, p.vecs))
			n.each("SCVTF.4S", x, x)
			n.each("FMUL.4S", x, x, same(scale, p.vecs))
			n.store(p, x[0], dst)
		})
	}},
	{"maxCodesNEON", "codes8", func(n *neon) {
		const dst, a, rows, ldd, lda, to, from, count = 1, 2, 3, 4, 5, 6, 7, 8
		n.get(dst, "codes8_dst", "codes8_a", "codes8_rows", "codes8_ldd", "codes8_lda")
		n.times(rows, func() {
			n.line("MOVD R%d, R%d", dst, to)
			n.line("MOVD R%d, R%d", a, from)
			n.line("MOVD codes8_n(R0), R%d", count)
			n.elements(count, 4, func(p part) {
				n.loadBytes(p, from, 0)
				n.loadBytes(p, to, 1)
				n.line("SUB $%d, R%d, R%d", p.lanes(), to, to)
				n.do("UMAX.16B", 0, 0, 1)
				n.storeBytes(p, 0, to)
			})
			n.line("ADD R%d, R%d, R%d", ldd, dst, dst)
			n.line("ADD R%d, R%d, R%d", lda, a, a)
		})
	}},
	{"depthwise8NEON", "tile8", depthwise8NEON},
}

// Registers of operations on bytes.
const (
	bytesLo   = 24
	bytesHi   = 25
	bytesZero = 26
	bytesFree = 29
)

// limitsOfBytes loads what toBytes needs.
func (n *neon) limitsOfBytes(lo, hi, zero string) {
	n.spread(lo, bytesLo)
	n.spread(hi, bytesHi)
	n.spread(zero, bytesZero)
}

// toBytes writes floats as codes: limited, rounded, with the zero point.
func (n *neon) toBytes(p part, x values, round string, pointer int) {
	n.limit(x, bytesLo, bytesHi, bytesFree)
	n.each(round, x, x)
	n.each("ADD.4S", x, x, same(bytesZero, p.vecs))
	n.narrow(p, 8, x[0], bytesFree)
	n.storeBytes(p, 8, pointer)
}

func (n *neon) addCodes(fused bool) {
	const dst, a, b, count = 1, 2, 3, 4
	const za, zb, fa, fb, k, factor, divisor = 16, 17, 18, 19, 20, 21, 22
	n.get(dst, "codes8_dst", "codes8_a", "codes8_b", "codes8_n")
	n.limitsOfBytes("codes8_lo", "codes8_hi", "codes8_zero")
	for i, field := range []string{"za", "zb", "fa", "fb", "k", "factor", "divisor"} {
		n.spread("codes8_"+field, za+i)
	}
	n.elements(count, 4, func(p part) {
		x, y, sum := consecutive(0, p.vecs), consecutive(4, p.vecs), consecutive(10, p.vecs)
		for _, operand := range []struct {
			x             values
			pointer, zero int
		}{{x, a, za}, {y, b, zb}} {
			n.loadBytes(p, operand.pointer, 8)
			n.widen(p, operand.x[0], 8, bytesFree)
			n.each("SUB.4S", operand.x, operand.x, same(operand.zero, p.vecs))
			n.each("SCVTF.4S", operand.x, operand.x)
		}
		if fused {
			n.move(sum, same(k, p.vecs))
			n.each("FMLA.4S", sum, y, same(fb, p.vecs))
			n.each("FMLA.4S", sum, x, same(fa, p.vecs))
		} else {
			n.each("FMUL.4S", x, x, same(fa, p.vecs))
			n.each("FMUL.4S", y, y, same(fb, p.vecs))
			n.each("FADD.4S", sum, x, y)
			n.each("FMUL.4S", sum, sum, same(factor, p.vecs))
			n.each("FDIV.4S", sum, sum, same(divisor, p.vecs))
		}
		n.toBytes(p, sum, "FCVTNS.4S", dst)
	})
}

func (n *neon) toCodes(round string) {
	const dst, real, count = 1, 2, 3
	const factor, divisor = 16, 17
	n.get(dst, "codes8_dst", "codes8_real", "codes8_n")
	n.limitsOfBytes("codes8_lo", "codes8_hi", "codes8_zero")
	n.spread("codes8_factor", factor)
	n.spread("codes8_divisor", divisor)
	n.elements(count, 4, func(p part) {
		x, number := consecutive(0, p.vecs), consecutive(4, p.vecs)
		n.load(p, real, x[0])
		n.each("FMUL.4S", x, x, same(factor, p.vecs))
		n.each("FDIV.4S", x, x, same(divisor, p.vecs))
		n.each("FCMEQ.4S", number, x, x) // NaN becomes 0
		n.each("AND", x, x, number)
		n.toBytes(p, x, round, dst)
	})
}

// depthwise8NEON is a depthwise tile with panels of 16 columns, in the layout flat8.
func depthwise8NEON(n *neon) {
	const a, dst, init, rows, lda, ldd, ldi, at, to, from, cols, panel, seg, segs = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
	const weights, left, position = 15, 19, 20
	n.get(a, "tile8_a", "tile8_dst", "tile8_init", "tile8_rows", "tile8_lda", "tile8_ldd", "tile8_ldi")
	n.times(rows, func() {
		n.line("MOVD R%d, R%d", a, at)
		n.line("MOVD R%d, R%d", dst, to)
		n.line("MOVD R%d, R%d", init, from)
		n.line("MOVD tile8_panel(R0), R%d", panel)
		n.line("MOVD tile8_cols(R0), R%d", cols)
		n.elements(cols, 4, func(p part) {
			n.load(p, from, 0)
			n.get(seg, "tile8_segs", "(tile8_segs+8)")
			n.line("MOVD R%d, R%d", panel, weights)
			n.line("MOVD R%d, R%d", segs, left)
			n.times(left, func() {
				n.line("MOVD segment_off(R%d), R%d", seg, position)
				n.line("ADD $segment__size, R%d, R%d", seg, seg)
				n.line("ADD R%d, R%d, R%d", at, position, position)
				n.loadBytes(p, position, 4)
				n.loadBytes(p, weights, 5)
				n.line("ADD $%d, R%d, R%d", 16-p.lanes(), weights, weights)
				n.do("UXTL.8H", 6, 4)
				n.do("SXTL.8H", 7, 5)
				n.do("SMLAL.4S", 0, 6, 7)
				if p.vecs == 4 {
					n.do("SMLAL2.4S", 1, 6, 7)
					n.do("UXTL2.8H", 6, 4)
					n.do("SXTL2.8H", 7, 5)
					n.do("SMLAL.4S", 2, 6, 7)
					n.do("SMLAL2.4S", 3, 6, 7)
				}
			})
			n.store(p, 0, to)
			n.line("ADD $%d, R%d, R%d", p.lanes(), at, at)
			n.line("ADD $%d, R%d, R%d", p.lanes(), panel, panel)
		})
		n.line("ADD R%d, R%d, R%d", lda, a, a)
		n.line("ADD R%d<<2, R%d, R%d", ldd, dst, dst)
		n.line("ADD R%d<<2, R%d, R%d", ldi, init, init)
	})
}

var neonOutputs = []neonFunction{
	{"scaleU8NEON", "outTile", func(n *neon) { n.scaleSums(false) }},
	{"scaleF32NEON", "outTile", func(n *neon) { n.scaleSums(true) }},
	{"shiftU8NEON", "outTile", shiftU8NEON},
}

// field is an address in the argument.
func field(offset int) string { return fmt.Sprintf("%d", offset) }

// Registers of what turns sums into codes.
const (
	sumsAcc      = 1 // R1: the block's first row
	sumsTo       = 2
	sumsResidual = 3 // 0: none
	sumsFirst    = 4 // numbers of the columns: factors or multipliers
	sumsSecond   = 5 // biases, 0 for none, or exponents
	sumsCols     = 6
	sumsLacc     = 7 // bytes from row to row
	sumsLdd      = 8
	sumsLdr      = 9
	sumsRows     = 10
	sumsRowAcc   = 11
	sumsRowTo    = 12
	sumsRowRes   = 13
)

// sumsColumns emits the loops over blocks of columns and their rows. prepare loads what belongs to the columns of a block, whose output
// elements have size bytes; row writes those of a row, from sums in V0 and V1 to R12.
func (n *neon) sumsColumns(size int, prepare func(p part), row func(p part)) {
	n.line("LSL $2, R%d, R%d", sumsLacc, sumsLacc)
	n.elements(sumsCols, 2, func(p part) {
		prepare(p)
		n.line("MOVD R%d, R%d", sumsAcc, sumsRowAcc)
		n.line("MOVD R%d, R%d", sumsTo, sumsRowTo)
		n.line("MOVD R%d, R%d", sumsResidual, sumsRowRes)
		n.line("MOVD outTile_rows(R0), R%d", sumsRows)
		n.times(sumsRows, func() {
			n.load(p, sumsRowAcc, 0)
			row(p)
			for _, r := range []struct{ at, step, moved int }{{sumsRowAcc, sumsLacc, 4 * p.lanes()}, {sumsRowTo, sumsLdd, size * p.lanes()}} {
				n.line("SUB $%d, R%d, R%d", r.moved, r.at, r.at)
				n.line("ADD R%d, R%d, R%d", r.step, r.at, r.at)
			}
		})
		n.line("ADD $%d, R%d, R%d", 4*p.lanes(), sumsAcc, sumsAcc)
		n.line("ADD $%d, R%d, R%d", size*p.lanes(), sumsTo, sumsTo)
		skip := n.fresh()
		n.line("CBZ R%d, %s", sumsResidual, skip)
		n.line("ADD $%d, R%d, R%d", p.lanes(), sumsResidual, sumsResidual)
		n.label(skip)
	})
}

// scaleSums turns sums into floats or codes by ref.Scale.
func (n *neon) scaleSums(floats bool) {
	const factor, bias, residual, lo, hi, scale, zero, divisor, free = 2, 4, 6, 16, 17, 18, 19, 20, 28
	n.get(sumsAcc, "outTile_acc", "outTile_dst", "outTile_residual", field(outFactor), field(outBias), "outTile_cols", "outTile_lacc",
		"outTile_ldd", "outTile_ldr")
	n.spread(field(outLo), lo)
	n.spread(field(outHi), hi)
	if floats {
		n.line("MOVD outTile_f32(R0), R%d", sumsTo)
		n.line("MOVD ZR, R%d", sumsResidual)
		n.line("LSL $2, R%d, R%d", sumsLdd, sumsLdd)
	} else {
		n.limitsOfBytes("outTile_least", "outTile_most", "outTile_zero")
		n.spread(field(outResidualScale), scale)
		n.spread("outTile_residualZero", zero)
		n.spread(field(outDivisor), divisor)
		n.line("FMOVS F%d, R14", divisor)
	}
	size := 1
	if floats {
		size = 4
	}
	n.sumsColumns(size, func(p part) {
		with, done := n.fresh(), n.fresh()
		n.load(p, sumsFirst, factor)
		n.line("CBNZ R%d, %s", sumsSecond, with)
		for i := range p.vecs { // adding -0 changes nothing
			n.line("VMOVI $128, V%d.B16", bias+i)
			n.shiftLeft(32, bias+i, bias+i, 24)
		}
		n.line("B %s", done)
		n.label(with)
		n.load(p, sumsSecond, bias)
		n.label(done)
	}, func(p part) {
		x, r := consecutive(0, p.vecs), consecutive(residual, p.vecs)
		n.each("SCVTF.4S", x, x)
		n.each("FMUL.4S", x, x, consecutive(factor, p.vecs))
		n.each("FADD.4S", x, x, consecutive(bias, p.vecs))
		if floats {
			n.limit(x, lo, hi, free)
			n.store(p, x[0], sumsRowTo)
			return
		}
		alone, whole := n.fresh(), n.fresh()
		n.line("CBZ R%d, %s", sumsRowRes, alone)
		n.loadBytes(p, sumsRowRes, 8)
		n.line("SUB $%d, R%d, R%d", p.lanes(), sumsRowRes, sumsRowRes)
		n.line("ADD R%d, R%d, R%d", sumsLdr, sumsRowRes, sumsRowRes)
		n.widen(p, r[0], 8, free)
		n.each("SUB.4S", r, r, same(zero, p.vecs))
		n.each("SCVTF.4S", r, r)
		n.each("FMUL.4S", r, r, same(scale, p.vecs))
		n.each("FADD.4S", x, x, r)
		n.label(alone)
		n.limit(x, lo, hi, free)
		n.line("CBZW R14, %s", whole)
		n.each("FDIV.4S", x, x, same(divisor, p.vecs))
		n.label(whole)
		n.toBytes(p, x, "FCVTNS.4S", sumsRowTo)
	})
}

// shiftU8NEON turns sums into codes by multipliers and shifts, as shiftU8 does (see kernels.shiftSteps). Products have 64 bits: a vector
// of sums makes two. Shifts to the right are by a negative number of bits, and round nothing.
func shiftU8NEON(n *neon) {
	const (
		mul       = 2 // and 3: of a block of columns
		left      = 4 // and 5
		second    = 8 // to 11, two columns each: the last shift; then half and sign
		half      = 12
		sign      = 16
		v         = 20 // and 21
		tmp       = 22
		bits      = 23
		even      = 24
		first     = 25
		firstHalf = 26
		none      = 27
		free      = 28
		zero      = 29
		most      = 30
		least     = 31
	)
	wide := func(offset, to int) { n.spreadWide(field(offset), to) }
	n.get(sumsAcc, "outTile_acc", "outTile_dst", "outTile_residual", field(outMul), field(outExp), "outTile_cols", "outTile_lacc",
		"outTile_ldd")
	n.line("MOVD ZR, R%d", sumsResidual)
	wide(outFirst, first)
	n.clear(values{free})
	n.do("SUB.2D", first, free, first)
	wide(outFirstHalf, firstHalf)
	wide(outEvenMask, even)
	n.spread(field(outLeast64), least) // the lower halves: all are small
	n.spread(field(outMost64), most)
	n.spread(field(outZero64), zero)
	n.sumsColumns(1, func(p part) {
		n.load(p, sumsFirst, mul)
		n.loadBytes(p, sumsSecond, left)
		n.do("SXTL.8H", free, left)
		n.do("SXTL.4S", left, free)
		n.do("SXTL2.4S", left+1, free)
		n.clear(values{free})
		for i := range p.vecs {
			// The last shift is by second-exp, the one to the left by exp if the steps say so, neither by less than 0.
			n.spread(field(outSecond), tmp)
			n.do("SUB.4S", tmp, tmp, left+i)
			n.do("SMAX.4S", tmp, tmp, free)
			n.do("SMAX.4S", left+i, left+i, free)
			n.spread(field(outLeft), bits)
			n.do("AND", left+i, left+i, bits)
			n.do("SXTL.2D", second+2*i, tmp)
			n.do("SXTL2.2D", second+2*i+1, tmp)
			for at := 2 * i; at < 2*i+2; at++ {
				one, x := v, v+1
				n.line("MOVD $1, R14")
				n.line("VDUP R14, V%d.D2", one)
				n.do("SUB.2D", x, second+at, one)
				n.do("SSHL.2D", half+at, one, x) // 0 for no shift: it is one to the right
				wide(outHalfMask, x)
				n.do("AND", half+at, half+at, x)
				wide(outHalfLess, x)
				n.do("ADD.2D", half+at, half+at, x)
				n.do("CMEQ.2D", none, second+at, free)
				wide(outSignMask, x)
				n.do("BIC", sign+at, x, none)
				n.do("SUB.2D", second+at, free, second+at)
			}
		}
	}, func(p part) {
		for i := range p.vecs {
			n.do("SSHL.4S", i, i, left+i)
			for k, multiply := range []string{"SMULL.2D", "SMULL2.2D"} {
				v, at := v+k, 2*i+k
				n.do(multiply, v, i, mul+i)
				n.do("ADD.2D", v, v, firstHalf)
				n.do("SSHL.2D", v, v, first)
				n.shiftRightSign(64, tmp, v, 63)
				n.do("AND", tmp, tmp, sign+at)
				n.do("SSHL.2D", bits, v, second+at)
				n.do("AND", bits, bits, even)
				n.do("ADD.2D", v, v, half+at)
				n.do("ADD.2D", v, v, tmp)
				n.do("ADD.2D", v, v, bits)
				n.do("SSHL.2D", v, v, second+at)
			}
			n.do("SQXTN.2S", i, v)
			n.do("SQXTN2.4S", i, v+1)
			n.do("SMAX.4S", i, i, least)
			n.do("SMIN.4S", i, i, most)
			n.do("ADD.4S", i, i, zero)
		}
		n.narrow(p, v, 0, free)
		n.storeBytes(p, v, sumsRowTo)
	})
}

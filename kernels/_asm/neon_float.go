package main

// Float operations on NEON: elementwise, functions of one number, windows, rows, observing.

var neonFloats = []neonFunction{
	{"addNEON", "tile", func(n *neon) { n.binary("FADD.4S") }},
	{"subNEON", "tile", func(n *neon) { n.binary("FSUB.4S") }},
	{"mulNEON", "tile", func(n *neon) { n.binary("FMUL.4S") }},
	{"divNEON", "tile", func(n *neon) { n.binary("FDIV.4S") }},
	{"limitNEON", "tile", func(n *neon) {
		n.spread("tile_lo", 30)
		n.spread("tile_hi", 31)
		n.get(1, "tile_a", "tile_dst", "tile_cols")
		n.elements(3, 4, func(p part) {
			n.load(p, 1, 0)
			n.limit(consecutive(0, p.vecs), 30, 31, 29)
			n.store(p, 0, 2)
		})
	}},
	{"fakeNEON", "tile", fakeNEON},
	{"maxWindowNEON", "tile", func(n *neon) { n.window(n.larger) }},
	{"sumWindowNEON", "tile", func(n *neon) { n.window(func(acc, x values) { n.each("FADD.4S", acc, acc, x) }) }},
}

// binary is a loop over a and the panel.
func (n *neon) binary(op string) {
	n.get(1, "tile_a", "tile_panel", "tile_dst", "tile_cols")
	n.elements(4, 4, func(p part) {
		x, y := consecutive(0, p.vecs), consecutive(4, p.vecs)
		n.load(p, 1, x[0])
		n.load(p, 2, y[0])
		n.each(op, x, x, y)
		n.store(p, x[0], 3)
	})
}

// fakeNEON is qmath.Grid.FakeSlice: divide, NaN to zero, clamp, round by adding and subtracting 1.5*2^23, multiply.
func fakeNEON(n *neon) {
	const scale, magic, lo, hi, free = 27, 28, 30, 31, 29
	n.numbered()
	n.number(float(rounder), magic)
	n.spread("tile_lo", lo)
	n.spread("tile_hi", hi)
	n.get(1, "tile_a", "tile_dst", "tile_cols", "tile_panel")
	n.line("VLD1R (R4), [V%d.S4]", scale)
	n.elements(3, 4, func(p part) {
		x, y := consecutive(0, p.vecs), consecutive(4, p.vecs)
		n.load(p, 1, x[0])
		n.each("FDIV.4S", x, x, same(scale, p.vecs))
		n.each("FCMEQ.4S", y, x, x)
		n.each("AND", x, x, y)
		n.limit(x, lo, hi, free)
		n.each("FADD.4S", x, x, same(magic, p.vecs))
		n.each("FSUB.4S", x, x, same(magic, p.vecs))
		n.each("FMUL.4S", x, x, same(scale, p.vecs))
		n.store(p, x[0], 2)
	})
}

// window is a tile of any number of channels for the tile's positions, that begins with lo and takes what each returns for an element
// of every segment.
func (n *neon) window(take func(acc, x values)) {
	const a, dst, rows, lda, ldd, at, to, cols, seg, segs, from = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	n.get(a, "tile_a", "tile_dst", "tile_rows", "tile_lda", "tile_ldd")
	n.spread("tile_lo", 31)
	n.times(rows, func() {
		n.line("MOVD R%d, R%d", a, at)
		n.line("MOVD R%d, R%d", dst, to)
		n.line("MOVD tile_cols(R0), R%d", cols)
		n.elements(cols, 4, func(p part) {
			acc, x := consecutive(0, p.vecs), consecutive(4, p.vecs)
			n.move(acc, same(31, p.vecs))
			n.line("MOVD tile_segs(R0), R%d", seg)
			n.line("MOVD (tile_segs+8)(R0), R%d", segs)
			n.times(segs, func() {
				n.line("MOVD segment_off(R%d), R%d", seg, from)
				n.line("ADD $segment__size, R%d, R%d", seg, seg)
				n.line("ADD R%d<<2, R%d, R%d", from, at, from)
				n.load(p, from, x[0])
				take(acc, x)
			})
			n.store(p, acc[0], to)
			n.line("ADD $%d, R%d, R%d", 4*p.lanes(), at, at)
		})
		n.line("ADD R%d<<2, R%d, R%d", lda, a, a)
		n.line("ADD R%d<<2, R%d, R%d", ldd, dst, dst)
	})
}

// larger is acc = x if acc is no NaN and x is larger or NaN. V28 and V29 are lost.
func (n *neon) larger(acc, x values) {
	for i := range acc {
		n.do("FCMGE.4S", 28, acc[i], x[i])
		n.do("FCMEQ.4S", 29, acc[i], acc[i])
		n.do("BIC", 29, 29, 28)
		n.do("BIT", acc[i], x[i], 29)
	}
}

// neonUnit is the unit of NEON. V28 to V31 belong to no value; V31 holds constants.
type neonUnit struct {
	*neon
	vecs int
}

const (
	neonFree     = 28
	neonConstant = 31
)

func (w neonUnit) value(i int) values { return consecutive(i*w.vecs, w.vecs) }

func (w neonUnit) fill(dst values, c float32) {
	for _, x := range dst {
		w.number(float(c), x)
	}
}

func (w neonUnit) parameter(off int) values {
	w.line("FMOVS %d(R0), F%d", off, neonConstant)
	w.line("VDUP V%d.S[0], V%d.S4", neonConstant, neonConstant)
	return same(neonConstant, w.vecs)
}

// constant is the same number for every vector.
func (w neonUnit) constant(bits uint32) values {
	w.number(bits, neonConstant)
	return same(neonConstant, w.vecs)
}

func (w neonUnit) scaled(dst, x values, c float32)   { w.each("FMUL.4S", dst, x, w.constant(float(c))) }
func (w neonUnit) raised(dst, x values, c float32)   { w.each("FADD.4S", dst, x, w.constant(float(c))) }
func (w neonUnit) addProduct(y, x values, c float32) { w.each("FMLA.4S", y, x, w.constant(float(c))) }

// multiplyAdd uses free registers: a fused product is added to its destination.
func (w neonUnit) multiplyAdd(y, x values, c float32) {
	free := consecutive(neonFree, len(y))
	w.fill(free, c)
	w.each("FMLA.4S", free, y, x)
	w.move(y, free)
}

// horner goes to and fro between y and free registers, so that nothing has to be moved.
func (w neonUnit) horner(y, x values, terms []float32) {
	from, to := y, consecutive(neonFree, len(y))
	if len(terms)%2 == 0 {
		from, to = to, from
	}
	w.fill(from, terms[0])
	for _, c := range terms[1:] {
		w.fill(to, c)
		w.each("FMLA.4S", to, from, x)
		from, to = to, from
	}
}

func (w neonUnit) sum(dst, x, y values)        { w.each("FADD.4S", dst, x, y) }
func (w neonUnit) difference(dst, x, y values) { w.each("FSUB.4S", dst, x, y) }
func (w neonUnit) product(dst, x, y values)    { w.each("FMUL.4S", dst, x, y) }
func (w neonUnit) quotient(dst, x, y values)   { w.each("FDIV.4S", dst, x, y) }
func (w neonUnit) root(x values)               { w.each("FSQRT.4S", x, x) }
func (w neonUnit) nearest(x values)            { w.each("FRINTN.4S", x, x) }
func (w neonUnit) fused(y, x, z values)        { w.accumulate("ORR", "FMLA.4S", y, x, z) }
func (w neonUnit) fusedFrom(y, x, z values)    { w.accumulate("ORR", "FMLS.4S", y, x, z) }
func (w neonUnit) fusedMinus(y, x, z values)   { w.accumulate("FNEG.4S", "FMLA.4S", y, x, z) }

// accumulate begins with z, as begin leaves it, and adds the product of y and x, or subtracts it.
func (w neonUnit) accumulate(begin, op string, y, x, z values) {
	for i := range y {
		free := neonFree + i%4
		if begin == "ORR" {
			w.do(begin, free, z[i], z[i])
		} else {
			w.do(begin, free, z[i])
		}
		w.do(op, free, y[i], x[i])
		w.do("ORR", y[i], free, free)
	}
}

// atLeast compares where the zeros of either sign would not be the same for MAX.
func (w neonUnit) atLeast(x values, c float32) {
	limit := w.constant(float(c))
	if c != 0 {
		w.each("FMAX.4S", x, x, limit)
		return
	}
	for _, r := range x {
		w.do("FCMGT.4S", neonFree, neonConstant, r)
		w.do("BIT", r, neonConstant, neonFree)
	}
}

func (w neonUnit) atMost(x values, c float32) { w.each("FMIN.4S", x, x, w.constant(float(c))) }

func (w neonUnit) selectGreater(dst, y, x values, c float32) {
	w.each("FCMGT.4S", x, x, w.constant(float(c)))
	w.each("BIT", dst, y, x)
}

func (w neonUnit) selectNegative(dst, y, x values) {
	for i := range dst {
		w.shiftRightSign(32, neonFree, x[i], 31)
		w.do("BIT", dst[i], y[i], neonFree)
	}
}

func (w neonUnit) magnitude(dst, x values) { w.each("FABS.4S", dst, x) }
func (w neonUnit) copySign(x, y values)    { w.each("BIT", x, y, w.constant(signBit)) }

func (w neonUnit) negative(dst, x values) {
	w.each("FABS.4S", dst, x)
	w.each("FNEG.4S", dst, dst)
}

// scale is two products, the first of which is exact.
func (w neonUnit) scale(x, n, s values) {
	w.each("FCVTNS.4S", n, n)
	for i := range n {
		w.shiftRightSign(32, s[i], n[i], 1)
	}
	w.each("SUB.4S", n, n, s)
	for _, half := range []values{s, n} {
		w.exponent(half)
		w.product(x, x, half)
	}
}

// exponent makes 2^n of integers.
func (w neonUnit) exponent(n values) {
	w.each("ADD.4S", n, n, w.constant(127))
	for _, r := range n {
		w.shiftLeft(32, r, r, 23)
	}
}

func (w neonUnit) power(dst, n values) {
	w.each("FCVTNS.4S", dst, n)
	w.exponent(dst)
}

var neonMath = func() (list []neonFunction) {
	for _, f := range functions {
		list = append(list, neonFunction{f.name + "NEON", "tile", func(n *neon) {
			n.numbered()
			n.get(1, "tile_a", "tile_dst", "tile_cols")
			n.elements(3, 4, func(p part) {
				n.load(p, 1, 0)
				f.emit(neonUnit{n, p.vecs})
				n.store(p, 0, 2)
			})
		}})
	}
	return list
}()

// Row operations take a multiple of 16 elements; element i belongs to lane i%16.
var neonRowOps = []neonFunction{
	{"rowMaxNEON", "tile", func(n *neon) {
		acc, x := consecutive(0, 4), consecutive(4, 4)
		whole := part{vecs: 4}
		n.get(1, "tile_a", "tile_dst", "tile_cols")
		n.line("VLD1 (R2), %s", n.list(acc[0], 4, "S4"))
		n.sixteens(3, func() {
			n.load(whole, 1, x[0])
			n.larger(acc, x)
		})
		n.store(whole, acc[0], 2)
	}},
	{"rowSumNEON", "tile", func(n *neon) { n.rowSum(false) }},
	{"rowSquaresNEON", "tile", func(n *neon) { n.rowSum(true) }},
	{"rowExpNEON", "tile", func(n *neon) {
		const sums = 16
		w := neonUnit{n, 4}
		n.numbered()
		n.get(1, "tile_a", "tile_dst", "tile_cols", "tile_lanes")
		n.doubleLanes("VLD1.P", 4, sums)
		n.sixteens(3, func() {
			x := w.value(0)
			n.load(part{vecs: 4}, 1, x[0])
			w.difference(x, x, w.parameter(offLo))
			exp(w)
			n.addDoubles(sums, x, 4)
			n.store(part{vecs: 4}, x[0], 2)
		})
		n.doubleLanes("VST1.P", 4, sums)
	}},
	{"normalizeNEON", "tile", normalizeNEON},
}

// doubleLanes loads the 16 sums of a row into registers or stores them; the pointer is the same before and after.
func (n *neon) doubleLanes(op string, pointer, first int) {
	for at := first; at < first+8; at += 4 {
		list, step := n.list(at, 4, "D2"), "64"
		if op == "VLD1.P" {
			n.line("VLD1.P %s(R%d), %s", step, pointer, list)
		} else {
			n.line("VST1.P %s, %s(R%d)", list, step, pointer)
		}
	}
	n.line("SUB $128, R%d, R%d", pointer, pointer)
}

// addDoubles adds 16 elements to the sums; V(free) and the next are lost.
func (n *neon) addDoubles(sums int, x values, free int) {
	for i, r := range x {
		n.do("FCVTL.2D", free, r)
		n.do("FCVTL2.2D", free+1, r)
		n.do("FADD.2D", sums+2*i, sums+2*i, free)
		n.do("FADD.2D", sums+2*i+1, sums+2*i+1, free+1)
	}
}

// rowSum is lanes[i%16] += a[i] in float64 or, with squares, += (a[i]-mean)^2, every operation rounded.
func (n *neon) rowSum(squares bool) {
	const sums, mean = 16, 31
	n.get(1, "tile_a", "tile_lanes", "tile_cols")
	if squares {
		n.spreadWide("tile_mean", mean)
	}
	n.doubleLanes("VLD1.P", 2, sums)
	n.sixteens(3, func() {
		x := consecutive(0, 4)
		n.load(part{vecs: 4}, 1, x[0])
		if !squares {
			n.addDoubles(sums, x, 4)
			return
		}
		for i, r := range x {
			wide := values{4 + 2*i, 5 + 2*i}
			n.do("FCVTL.2D", wide[0], r)
			n.do("FCVTL2.2D", wide[1], r)
			n.each("FSUB.2D", wide, wide, same(mean, 2))
			n.each("FMUL.2D", wide, wide, wide)
			to := consecutive(sums+2*i, 2)
			n.each("FADD.2D", to, to, wide)
		}
	})
	n.doubleLanes("VST1.P", 2, sums)
}

// normalizeNEON is dst[i] = (a[i]-mean) * inv * panel[i] (+ bias[i]) in float64, every operation rounded.
func normalizeNEON(n *neon) {
	const a, dst, panel, bias, cols, mean, inv = 1, 2, 3, 4, 5, 30, 31
	n.get(a, "tile_a", "tile_dst", "tile_panel", "tile_bias", "tile_cols")
	n.spreadWide("tile_mean", mean)
	n.spreadWide("tile_inv", inv)
	plain, done := n.fresh(), n.fresh()
	body := func(biased bool) {
		n.sixteens(cols, func() {
			n.load(part{vecs: 4}, a, 0)
			n.load(part{vecs: 4}, panel, 4)
			if biased {
				n.load(part{vecs: 4}, bias, 8)
			}
			wide := func(to values, from int) {
				n.do("FCVTL.2D", to[0], from)
				n.do("FCVTL2.2D", to[1], from)
			}
			for i := range 4 {
				x, y := consecutive(12+4*i, 2), consecutive(14+4*i, 2)
				wide(x, i)
				n.each("FSUB.2D", x, x, same(mean, 2))
				n.each("FMUL.2D", x, x, same(inv, 2))
				wide(y, 4+i)
				n.each("FMUL.2D", x, x, y)
				if biased {
					wide(y, 8+i)
					n.each("FADD.2D", x, x, y)
				}
				n.do("FCVTN.2S", i, x[0])
				n.do("FCVTN2.4S", i, x[1])
			}
			n.store(part{vecs: 4}, 0, dst)
		})
	}
	n.line("CBZ R%d, %s", bias, plain)
	body(true)
	n.line("B %s", done)
	n.label(plain)
	body(false)
	n.label(done)
}

var neonObservers = []neonFunction{
	{"minMaxNEON", "tile", minMaxNEON},
	{"channelMinMaxNEON", "tile", channelMinMaxNEON},
	{"binsNEON", "tile", binsNEON},
}

// extremes widens extremes by x and adds x to sums, in which NaN and infinities show. NaN leaves the extremes as they are.
// V30 and V31 are lost.
func (n *neon) extremes(lo, hi, sum, x values) {
	for i := range x {
		n.do("FCMGT.4S", 30, lo[i], x[i])
		n.do("FCMGT.4S", 31, x[i], hi[i])
		n.do("BIT", lo[i], x[i], 30)
		n.do("BIT", hi[i], x[i], 31)
		n.do("FADD.4S", sum[i], sum[i], x[i])
	}
}

// isFinite stores into load whether all lanes of the four sums are finite: the difference of their sum to itself is then zero.
func (n *neon) isFinite(sum values) {
	for _, s := range sum[1:] {
		n.do("FADD.4S", sum[0], sum[0], s)
	}
	n.do("FSUB.4S", sum[0], sum[0], sum[0])
	n.do("FCMEQ.4S", sum[0], sum[0], sum[0])
	n.do("UMINV.S", sum[0], sum[0])
	n.line("FMOVS F%d, R9", sum[0])
	n.line("AND $1, R9, R9")
	n.line("MOVD R9, tile_load(R0)")
}

// minMaxNEON is the extremes of cols elements, no fewer than a vector, which go to lo and hi.
func minMaxNEON(n *neon) {
	lo, hi, sum, x := consecutive(0, 4), consecutive(4, 4), consecutive(8, 4), consecutive(12, 4)
	n.get(1, "tile_a", "tile_cols")
	for i := range lo {
		n.line("VLD1R (R1), [V%d.S4]", lo[i])
	}
	n.move(hi, lo)
	n.clear(sum)
	n.elements(2, 4, func(p part) {
		n.load(p, 1, x[0])
		if p.single {
			n.line("VDUP V%d.S[0], V%d.S4", x[0], x[0])
		}
		n.extremes(lo[:p.vecs], hi[:p.vecs], sum[:p.vecs], x[:p.vecs])
	})
	for i := 1; i < 4; i++ {
		n.do("FMIN.4S", lo[0], lo[0], lo[i])
		n.do("FMAX.4S", hi[0], hi[0], hi[i])
	}
	n.do("FMINV.S", lo[0], lo[0])
	n.do("FMAXV.S", hi[0], hi[0])
	n.line("FMOVS F%d, tile_lo(R0)", lo[0])
	n.line("FMOVS F%d, tile_hi(R0)", hi[0])
	n.isFinite(sum)
}

// channelMinMaxNEON is the extremes of each of cols columns over the tile's rows: panel holds the minima, dst the maxima.
func channelMinMaxNEON(n *neon) {
	const a, panel, dst, lda, cols, at, rows = 1, 2, 3, 4, 5, 6, 7
	lo, hi, sum, x := consecutive(0, 4), consecutive(4, 4), consecutive(8, 4), consecutive(12, 4)
	n.get(a, "tile_a", "tile_panel", "tile_dst", "tile_lda", "tile_cols")
	n.line("LSL $2, R%d, R%d", lda, lda)
	n.clear(sum)
	n.elements(cols, 4, func(p part) {
		n.load(p, panel, lo[0])
		n.load(p, dst, hi[0])
		n.line("SUB $%d, R%d, R%d", 4*p.lanes(), panel, panel)
		n.line("SUB $%d, R%d, R%d", 4*p.lanes(), dst, dst)
		n.line("MOVD R%d, R%d", a, at)
		n.line("MOVD tile_rows(R0), R%d", rows)
		n.times(rows, func() {
			n.load(p, at, x[0])
			n.line("SUB $%d, R%d, R%d", 4*p.lanes(), at, at)
			n.line("ADD R%d, R%d, R%d", lda, at, at)
			n.extremes(lo[:p.vecs], hi[:p.vecs], sum[:p.vecs], x[:p.vecs])
		})
		n.store(p, lo[0], panel)
		n.store(p, hi[0], dst)
		n.line("ADD $%d, R%d, R%d", 4*p.lanes(), a, a)
	})
	n.isFinite(sum)
}

// binsNEON counts cols elements, a multiple of 16, in counts, block by block: vector instructions find the counters of a block and
// write their numbers to dst, which a second loop increments one by one. Zeros have a counter for each lane.
func binsNEON(n *neon) {
	const a, cols, counts, keys, block, left, at, two, one = 1, 2, 3, 4, 5, 6, 7, 8, 9
	const magnitude, tiny, side, floor, origin, last, lanes, negative = 16, 17, 18, 19, 20, 21, 22, 30
	spread := func(to int, format string, args ...any) {
		n.line("MOVD "+format+", R%d", append(args, at)...)
		n.line("VDUP R%d, V%d.S4", at, to)
	}
	n.get(a, "tile_a", "tile_cols", "tile_counts", "tile_dst")
	spread(magnitude, "$%d", binSign-1)
	spread(tiny, "$%d", binTiny)
	spread(origin, "$%d", binZeros)
	n.spread("tile_side", side)
	n.spread("tile_floor", floor)
	n.do("SUB.4S", origin, floor, origin)
	n.line("MOVD (tile_counts+8)(R0), R%d", at)
	n.line("SUB $1, R%d, R%d", at, at)
	n.line("VDUP R%d, V%d.S4", at, last)
	n.line("MOVD $laneNumbers<>(SB), R%d", at)
	n.line("VLD1 (R%d), %s", at, n.list(lanes, 4, "S4"))
	next := n.fresh()
	n.label(next)
	n.line("CMP $%d, R%d", binBlock, cols)
	n.line("MOVD $%d, R%d", binBlock, block)
	n.line("CSEL LT, R%d, R%d, R%d", cols, block, block)
	n.line("SUB R%d, R%d, R%d", block, cols, cols)
	n.line("MOVD R%d, R%d", block, left)
	n.line("MOVD R%d, R%d", keys, at)
	n.sixteens(left, func() {
		k, u, minus := consecutive(0, 4), consecutive(4, 4), consecutive(8, 4)
		n.load(part{vecs: 4}, a, k[0])
		for i := range k {
			n.shiftRight(32, k[i], k[i], binShift)
			n.do("AND", u[i], k[i], magnitude)
			n.do("CMHI.4S", minus[i], k[i], magnitude) // the sign bit is set
			n.do("AND", minus[i], minus[i], side)
			n.do("CMHI.4S", k[i], tiny, u[i])
			n.do("UMAX.4S", u[i], u[i], floor)
			n.do("SUB.4S", u[i], u[i], origin)
			n.do("ADD.4S", u[i], u[i], minus[i])
			n.do("BIT", u[i], lanes+i, k[i])
			n.do("UMIN.4S", u[i], u[i], last) // whatever x holds, nothing beside counts is touched
		}
		n.store(part{vecs: 4}, u[0], at)
	})
	n.line("MOVD R%d, R%d", keys, at)
	n.sixteens(block, func() {
		for range 8 {
			n.line("MOVD.P 8(R%d), R%d", at, two)
			for half := range 2 {
				if half == 0 {
					n.line("MOVWU R%d, R%d", two, one)
				} else {
					n.line("LSR $32, R%d, R%d", two, one)
				}
				n.line("ADD R%d<<2, R%d, R%d", one, counts, one)
				n.line("MOVWU (R%d), R10", one)
				n.line("ADDW $1, R10, R10")
				n.line("MOVW R10, (R%d)", one)
			}
		}
	})
	n.line("CBNZ R%d, %s", cols, next)
}

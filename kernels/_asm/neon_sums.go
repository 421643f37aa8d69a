package main

// Products of groups, sums of products of columns, comparisons, combinations and peaks on NEON.

var neonGroups = []neonFunction{
	{"groups8R1NEON", "groupTile", func(n *neon) { n.groups(8, 1) }},
	{"groups8R2NEON", "groupTile", func(n *neon) { n.groups(8, 2) }},
	{"groups8R3NEON", "groupTile", func(n *neon) { n.groups(8, 3) }},
	{"groups4R1NEON", "groupTile", func(n *neon) { n.groups(4, 1) }},
	{"groups4R2NEON", "groupTile", func(n *neon) { n.groups(4, 2) }},
	{"groups4R3NEON", "groupTile", func(n *neon) { n.groups(4, 3) }},
	{"groupsFloat8NEON", "groupTile", func(n *neon) { n.groupsFloat(8) }},
	{"groupsFloat4NEON", "groupTile", func(n *neon) { n.groupsFloat(4) }},
	{"quantizeGroupsNEON", "groupQuantizer", quantizeGroupsNEON},
}

const groupVecs = groupLanes / 4 // vectors of a panel

// General registers of products of groups.
const (
	groupW = 1 + iota
	groupFirst
	groupTo
	groupSums
	groupLdd
	groupPanels
	groupX
	groupGroups
	groupWords
	groupHead
	groupRow
)

// groupPanelLoops emits the loops over panels and groups: start and end of a group, a word of it, and what stores a panel's totals.
func (n *neon) groupPanelLoops(totals values, start, word, end, store func()) {
	n.get(groupW, "groupTile_w", "groupTile_x", "groupTile_dst", "groupTile_sums", "groupTile_ldd", "groupTile_panels")
	n.line("LSL $2, R%d, R%d", groupLdd, groupLdd)
	n.times(groupPanels, func() {
		n.line("MOVD R%d, R%d", groupFirst, groupX)
		n.line("MOVD groupTile_groups(R0), R%d", groupGroups)
		n.clear(totals)
		n.times(groupGroups, func() {
			start()
			n.line("MOVD groupTile_words(R0), R%d", groupWords)
			n.times(groupWords, word)
			end()
		})
		store()
		n.line("ADD $%d, R%d, R%d", 4*groupLanes, groupTo, groupTo)
	})
}

// groups is a product of rows rows of quantized activations. Codes of the matrix are unsigned, raised by 128 or, of four bits, by 8. SDOT
// wants signed ones: those of eight bits are lowered, and the sums of those of four begin with as many times the sum of the codes of x,
// negated.
func (n *neon) groups(bits, rows int) {
	const w, code, firstX, raise = 24, 25, 26, 31
	sums, totals := consecutive(0, rows*groupVecs), consecutive(12, rows*groupVecs)
	halves := 8 / bits
	if bits == 8 {
		n.line("VMOVI $128, V%d.B16", raise)
	}
	n.groupPanelLoops(totals, func() {
		n.line("MOVD R%d, R%d", groupX, groupHead)
		n.line("ADD $%d, R%d, R%d", 8*rows, groupX, groupX)
		if bits == 8 {
			n.clear(sums)
			return
		}
		n.line("ADD $%d, R%d, R%d", 4*rows, groupHead, groupRow)
		for r := range rows {
			first := sums[r*groupVecs]
			n.line("VLD1R.P 4(R%d), [V%d.S4]", groupRow, first)
			n.shiftLeft(32, first, first, 3)
			n.move(sums[r*groupVecs+1:][:groupVecs-1], same(first, groupVecs-1))
		}
	}, func() {
		for i := range rows * halves {
			n.line("VLD1R.P 4(R%d), [V%d.S4]", groupX, firstX+i)
		}
		for i := range groupVecs {
			n.load(part{vecs: 1}, groupW, w)
			for half := range halves {
				switch {
				case bits == 8:
					n.do("EOR", code, w, raise)
				case half == 0:
					n.shiftLeft(8, code, w, 4)
					n.shiftRight(8, code, code, 4)
				default:
					n.shiftRight(8, code, w, 4)
				}
				for r := range rows {
					n.do("SDOT.4S", sums[r*groupVecs+i], code, firstX+half*rows+r)
				}
			}
		}
	}, func() {
		skip := n.fresh()
		n.line("CBZ R%d, %s", groupSums, skip)
		for r := range rows {
			n.store(part{vecs: groupVecs}, sums[r*groupVecs], groupSums)
		}
		n.label(skip)
		scales := consecutive(w, groupVecs)
		n.load(part{vecs: groupVecs}, groupW, scales[0])
		for r := range rows {
			s, t := sums[r*groupVecs:][:groupVecs], totals[r*groupVecs:][:groupVecs]
			n.line("VLD1R.P 4(R%d), [V30.S4]", groupHead)
			n.each("SCVTF.4S", s, s)
			n.each("FMUL.4S", s, s, scales)
			n.each("FMUL.4S", s, s, same(30, groupVecs))
			n.each("FADD.4S", t, t, s)
		}
	}, func() {
		n.line("MOVD R%d, R%d", groupTo, groupRow)
		for r := range rows {
			n.line("VST1 %s, (R%d)", n.list(totals[r*groupVecs], groupVecs, "S4"), groupRow)
			n.line("ADD R%d, R%d, R%d", groupLdd, groupRow, groupRow)
		}
	})
}

// groupsFloat is a product of one row of floats, ref.DotGroupsFloat.
func (n *neon) groupsFloat(bits int) {
	const chains = 4
	const w, x, code, raise = 20, 24, 26, 30
	totals := consecutive(16, groupVecs)
	chain := func(c, i int) int { return c*groupVecs + i }
	n.numbered()
	if bits == 8 {
		n.number(0x80808080, raise)
	} else {
		n.number(0x88888888, raise)
	}
	n.groupPanelLoops(totals, func() { n.clear(consecutive(0, chains*groupVecs)) }, func() {
		n.load(part{vecs: groupVecs}, groupW, w)
		n.load(part{vecs: 8 / bits}, groupX, x)
		for i := range groupVecs {
			n.do("EOR", w+i, w+i, raise)
		}
		for k := range 32 / bits {
			for i := range groupVecs {
				t := code + i%2
				place := 8*(k%4) + 4*(k/4) // of the code in the word: it is moved to the top, then down
				from := w + i
				if up := 32 - bits - place; up > 0 {
					n.shiftLeft(32, t, from, up)
					from = t
				}
				n.shiftRightSign(32, t, from, 32-bits)
				n.do("SCVTF.4S", t, t)
				n.line("WORD $%#08x // FMUL.4S V%d, V%d, V%d.S[%d]", byElement(fmul, t, t, x+k/4, k%4), t, t, x+k/4, k%4)
				n.do("FADD.4S", chain(k%chains, i), chain(k%chains, i), t)
			}
		}
	}, func() {
		n.load(part{vecs: groupVecs}, groupW, w)
		for i := range groupVecs {
			n.do("FADD.4S", chain(0, i), chain(0, i), chain(1, i))
			n.do("FADD.4S", chain(2, i), chain(2, i), chain(3, i))
			n.do("FADD.4S", chain(0, i), chain(0, i), chain(2, i))
			n.do("FMUL.4S", chain(0, i), chain(0, i), w+i)
			n.do("FADD.4S", totals[i], totals[i], chain(0, i))
		}
	}, func() { n.line("VST1 %s, (R%d)", n.list(totals[0], groupVecs, "S4"), groupTo) })
}

// quantizeGroupsNEON quantizes a row in groups of a multiple of 16 elements and writes it to its place among rows rows: by group its
// scale, the negated sum of its codes, and its codes, four each.
func quantizeGroupsNEON(n *neon) {
	const x, head, step, groups, size, out, at, left, bits = 1, 2, 3, 4, 5, 6, 7, 8, 9
	const most, scale, sum, limit, least = 16, 17, 18, 30, 31
	n.numbered()
	n.number(float(127), limit)
	n.number(float(-127), least)
	place := "groupQuantizer_groupPlace+groupPlace"
	n.get(x, "groupQuantizer_x", place+"_to", place+"_rows", "groupQuantizer_groups", "groupQuantizer_size")
	n.line("LSL $2, R%d, R%d", step, step)
	broken, zeros, next := n.fresh(), n.fresh(), n.fresh()
	v := consecutive(0, 4)
	n.times(groups, func() {
		// The largest magnitude: as integers, magnitudes have the order of the numbers, and NaN is above infinity.
		n.clear(values{most})
		n.line("MOVD R%d, R%d", x, at)
		n.line("MOVD R%d, R%d", size, left)
		n.sixteens(left, func() {
			n.load(part{vecs: 4}, at, v[0])
			for _, r := range v {
				n.do("FABS.4S", r, r)
				n.do("UMAX.4S", most, most, r)
			}
		})
		n.do("UMAXV.S", most, most)
		n.line("FMOVS F%d, R%d", most, bits)
		n.line("ADD R%d<<1, R%d, R%d", step, head, out) // the codes follow scales and sums
		n.line("MOVD R%d, R%d", size, left)
		n.line("MOVD $0x7f800000, R%d", at)
		n.line("CMPW R%d, R%d", at, bits)
		n.line("BHS %s", broken)
		n.line("FDIVS F%d, F%d, F%d", limit, most, scale)
		n.line("FMOVS F%d, R%d", scale, bits)
		n.line("CBZW R%d, %s", bits, zeros)
		n.line("MOVW R%d, (R%d)", bits, head)
		n.line("VDUP V%d.S[0], V%d.S4", scale, scale)
		n.clear(values{sum})
		n.sixteens(left, func() {
			n.load(part{vecs: 4}, x, v[0])
			n.each("FDIV.4S", v, v, same(scale, 4))
			// Scales that are denormal are coarse: a quotient may lie beyond 127.
			n.each("FMIN.4S", v, v, same(limit, 4))
			n.each("FMAX.4S", v, v, same(least, 4))
			n.each("FCVTAS.4S", v, v)
			for _, r := range v {
				n.do("ADD.4S", sum, sum, r)
			}
			n.do("SQXTN.4H", 4, 0)
			n.do("SQXTN2.8H", 4, 1)
			n.do("SQXTN.4H", 5, 2)
			n.do("SQXTN2.8H", 5, 3)
			n.do("SQXTN.8B", 4, 4)
			n.do("SQXTN2.16B", 4, 5)
			for i := range 4 {
				n.line("VST1 V4.S[%d], (R%d)", i, out)
				n.line("ADD R%d, R%d, R%d", step, out, out)
			}
		})
		n.do("ADDV.S", sum, sum)
		n.line("FMOVS F%d, R%d", sum, bits)
		n.line("NEGW R%d, R%d", bits, bits)
		n.line("ADD R%d, R%d, R%d", step, head, at)
		n.line("MOVW R%d, (R%d)", bits, at)
		n.line("B %s", next)

		n.label(broken)
		n.line("MOVD $0x7fc00000, R%d", bits) // NaN
		n.label(zeros)                        // the scale is in R(bits)
		n.line("ADD R%d<<2, R%d, R%d", size, x, x)
		n.line("MOVW R%d, (R%d)", bits, head)
		n.line("ADD R%d, R%d, R%d", step, head, at)
		n.line("MOVW ZR, (R%d)", at)
		n.sixteens(left, func() {
			for range 4 {
				n.line("MOVW ZR, (R%d)", out)
				n.line("ADD R%d, R%d, R%d", step, out, out)
			}
		})
		n.label(next)
		n.line("MOVD R%d, R%d", out, head)
	})
}

var neonSums = []neonFunction{
	{"combineNEON", "tile", combineNEON},
	{"gramNEON", "gramTile", gramNEON},
	{"unitsNEON", "unitsTile", unitsNEON},
	{"compareNEON", "sums", func(n *neon) {
		n.compared(4, false, func(sum func(i int) values, x, y, _, d, t values) {
			n.each("FSUB.2D", d, x, y)
			for i, f := range [][2]values{{d, d}, {y, y}, {x, x}, {x, y}} {
				n.each("FMUL.2D", t, f[0], f[1])
				n.each("FADD.2D", sum(i), sum(i), t)
			}
		})
	}},
	{"partsNEON", "sums", func(n *neon) {
		n.compared(3, true, func(sum func(i int) values, x, y, z, d, t values) {
			n.each("FMUL.2D", t, y, y)
			n.each("FADD.2D", sum(0), sum(0), t)
			n.each("FSUB.2D", d, x, y)
			n.each("FSUB.2D", t, z, y)
			n.each("FMUL.2D", t, t, d)
			n.each("FADD.2D", sum(1), sum(1), t)
			n.each("FSUB.2D", t, x, z)
			n.each("FMUL.2D", t, t, d)
			n.each("FADD.2D", sum(2), sum(2), t)
		})
	}},
}

// compared emits the loops of a comparison that has count sums. The first 8 lanes of each come first, then the others: all of them do not
// fit into registers. add takes four elements, two vectors of doubles each; d and t are for use.
func (n *neon) compared(count int, third bool, add func(sum func(i int) values, x, y, z, d, t values)) {
	const px, py, pz, left, lanes, at = 1, 2, 3, 4, 5, 6
	double := func(to int, pointer, offset int) values {
		n.line("FMOVQ %d(R%d), F%d", offset, pointer, to+1)
		n.do("FCVTL.2D", to, to+1)
		n.do("FCVTL2.2D", to+1, to+1)
		return consecutive(to, 2)
	}
	for half := range 2 {
		n.get(px, "sums_x", "sums_y", "sums_z")
		n.line("MOVD sums_n(R0), R%d", left)
		n.line("ADD $(sums_lanes+%d), R0, R%d", 64*half, lanes)
		n.line("MOVD R%d, R%d", lanes, at)
		for i := range count {
			n.line("VLD1 (R%d), %s", at, n.list(4*i, 4, "D2"))
			n.line("ADD $128, R%d, R%d", at, at)
		}
		n.sixteens(left, func() {
			for quarter := range 2 {
				offset := 32*half + 16*quarter
				var z values
				x, y := double(16, px, offset), double(18, py, offset)
				if third {
					z = double(20, pz, offset)
				}
				add(func(i int) values { return consecutive(4*i+2*quarter, 2) }, x, y, z, consecutive(22, 2), consecutive(24, 2))
			}
			n.line("ADD $64, R%d, R%d", px, px)
			n.line("ADD $64, R%d, R%d", py, py)
			if third {
				n.line("ADD $64, R%d, R%d", pz, pz)
			}
		})
		for i := range count {
			n.line("VST1 %s, (R%d)", n.list(4*i, 4, "D2"), lanes)
			n.line("ADD $128, R%d, R%d", lanes, lanes)
		}
	}
}

// combineNEON is, for every block of 16 columns, the sum over k of float32(a[k] * panel[block*ldd+k*lda+i]), in the order of k, every
// operation rounded.
func combineNEON(n *neon) {
	const panel, dst, lda, ldd, blocks, a, at, count, factor = 1, 2, 3, 4, 5, 6, 7, 8, 31
	acc, m := consecutive(0, 4), consecutive(4, 4)
	n.get(panel, "tile_panel", "tile_dst", "tile_lda", "tile_ldd", "tile_rows")
	n.line("LSL $2, R%d, R%d", lda, lda)
	n.times(blocks, func() {
		n.get(a, "tile_a")
		n.line("MOVD R%d, R%d", panel, at)
		n.line("MOVD tile_cols(R0), R%d", count)
		n.clear(acc)
		n.times(count, func() {
			n.line("VLD1R.P 4(R%d), [V%d.S4]", a, factor)
			n.line("VLD1 (R%d), %s", at, n.list(m[0], 4, "S4"))
			n.line("ADD R%d, R%d, R%d", lda, at, at)
			n.each("FMUL.4S", m, m, same(factor, 4))
			n.each("FADD.4S", acc, acc, m)
		})
		n.store(part{vecs: 4}, acc[0], dst)
		n.line("ADD R%d<<2, R%d, R%d", ldd, panel, panel)
	})
}

// gramNEON is the products of two panels of 32 columns, each element a pair of int16 of two rows: column by column of a, summed in 32 bits
// over all pairs, then added to the 64-bit sums.
func gramNEON(n *neon) {
	const a, b, dst, columns, at, to, pairs = 1, 2, 3, 4, 5, 6, 7
	const firstB, x = 16, 24
	n.get(a, "gramTile_a", "gramTile_b", "gramTile_dst")
	n.line("MOVD $%d, R%d", gramLanes, columns)
	n.times(columns, func() {
		n.clear(consecutive(0, 16))
		n.line("MOVD R%d, R%d", a, at)
		n.line("MOVD R%d, R%d", b, to)
		n.line("MOVD gramTile_pairs(R0), R%d", pairs)
		n.times(pairs, func() {
			n.line("VLD1R (R%d), [V%d.S4]", at, x)
			n.line("ADD $%d, R%d, R%d", 4*gramLanes, at, at)
			for i := 0; i < 8; i += 4 {
				n.line("VLD1.P 64(R%d), %s", to, n.list(firstB+i, 4, "H8"))
			}
			for i := range 8 {
				n.do("SMLAL.4S", 2*i, firstB+i, x)
				n.do("SMLAL2.4S", 2*i+1, firstB+i, x)
			}
		})
		for i := range 8 { // four columns: the products of both rows together, then twice as wide
			n.do("ADDP.4S", 2*i, 2*i, 2*i+1)
			n.line("VLD1 (R%d), [V16.D2, V17.D2]", dst)
			n.do("SADDW.2D", 16, 16, 2*i)
			n.do("SADDW2.2D", 17, 17, 2*i)
			n.line("VST1.P [V16.D2, V17.D2], 32(R%d)", dst)
		}
		n.line("ADD $4, R%d, R%d", a, a)
	})
}

// unitsNEON is the sums of columns in whole units, as units has them on AVX. The columns are a multiple of 4, two vectors of doubles.
func unitsNEON(n *neon) {
	const x, sums, cols, stride, at, rows, number = 1, 2, 3, 4, 5, 6, 7
	const wide, odd, magic, scale, lo, hi, r, d, taken = 12, 20, 21, 22, 23, 24, 25, 26, 27
	n.get(x, "unitsTile_x", "unitsTile_sums", "unitsTile_cols", "unitsTile_stride", "unitsTile_rows")
	n.line("LSL $2, R%d, R%d", stride, stride)
	n.spreadWide("unitsTile_scale", scale)
	n.spread("unitsTile_lo", lo)
	n.spread("unitsTile_hi", hi)
	n.line("MOVD $%#x, R%d", unitsMagic, number)
	n.line("VDUP R%d, V%d.D2", number, magic)
	n.line("MUL R%d, R%d, R%d", at, number, number)
	n.line("VDUP R%d, V%d.D2", number, taken)
	n.clear(values{odd})
	n.loops(cols, []part{{vecs: 4}, {vecs: 1}}, func(p part) {
		acc, v := consecutive(0, 2*p.vecs), consecutive(8, p.vecs)
		for i := range p.vecs {
			n.line("VLD1.P 32(R%d), %s", sums, n.list(acc[2*i], 2, "D2"))
		}
		n.line("SUB $%d, R%d, R%d", 8*p.lanes(), sums, sums)
		n.each("SUB.2D", acc, acc, same(taken, 2*p.vecs))
		n.line("MOVD R%d, R%d", x, at)
		n.line("MOVD unitsTile_rows(R0), R%d", rows)
		n.times(rows, func() {
			n.line("VLD1 (R%d), %s", at, n.list(v[0], p.vecs, "S4"))
			n.line("ADD R%d, R%d, R%d", stride, at, at)
			n.each("FMAX.4S", v, v, same(lo, p.vecs))
			n.each("FMIN.4S", v, v, same(hi, p.vecs))
			for i, f := range v {
				for k, widen := range []string{"FCVTL.2D", "FCVTL2.2D"} {
					n.do(widen, wide+k, f)
					n.do("ORR", r, magic, magic)
					n.do("FMLA.2D", r, wide+k, scale)
					n.do("FSUB.2D", d, r, magic)
					n.do("FMLS.2D", d, wide+k, scale)
					n.do("ORR", odd, odd, d)
					n.do("ADD.2D", acc[2*i+k], acc[2*i+k], r)
				}
			}
		})
		for i := range p.vecs {
			n.line("VST1.P %s, 32(R%d)", n.list(acc[2*i], 2, "D2"), sums)
		}
		n.line("ADD $%d, R%d, R%d", 4*p.lanes(), x, x)
	})
	n.do("ADD.2D", odd, odd, odd) // a difference of zero may have a sign
	n.do("UMAXV.S", odd, odd)
	n.line("FMOVS F%d, R%d", odd, number)
	n.line("MOVD R%d, unitsTile_odd(R0)", number)
}

// neonPeaks do one thing only; those of arithmetic add to sixteen registers.
var neonPeaks = []neonFunction{
	{"fmaPeakNEON", "tile", func(n *neon) { n.peak("FMLA.4S") }},
	{"dotPeakNEON", "tile", func(n *neon) { n.peak("SDOT.4S") }},
	{"pairPeakNEON", "tile", func(n *neon) { n.peak("SMLAL.4S") }},
	{"readNEON", "tile", func(n *neon) {
		n.get(1, "tile_a", "tile_cols")
		n.line("LSR $1, R2, R2") // 32 elements count as 16
		n.sixteens(2, func() {
			n.load(part{vecs: 4}, 1, 0)
			n.load(part{vecs: 4}, 1, 4)
		})
	}},
}

func (n *neon) peak(op string) {
	n.get(1, "tile_a", "tile_cols")
	n.clear(consecutive(0, 16))
	n.line("VLD1 (R1), [V30.S4, V31.S4]")
	n.times(2, func() {
		for i := range 16 {
			n.do(op, i, 30, 31)
		}
	})
}

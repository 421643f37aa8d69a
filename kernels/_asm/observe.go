package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var observeFiles = []file{
	{"avx512", []family{
		{"minMaxAVX512", 1, 1, minMax(avx512)},
		{"channelMinMaxAVX512", 1, 1, channelMinMax(avx512)},
		{"binsAVX512", 1, 1, bins(avx512)},
	}},
	{"avx2", []family{
		{"minMaxAVX2", 1, 1, minMax(avx2)},
		{"channelMinMaxAVX2", 1, 1, channelMinMax(avx2)},
		{"binsAVX2", 1, 1, bins(avx2)},
	}},
}

// extreme holds the registers of running minima, maxima and sums. NaN, as the first source of MIN and MAX, leaves what is
// there; the sum is where NaN and infinities show.
type extreme struct{ lo, hi, sum []reg.VecPhysical }

func (v isa) extreme(n int) extreme {
	var e extreme
	for i := range n {
		e.lo, e.hi, e.sum = append(e.lo, v.vec(i)), append(e.hi, v.vec(n+i)), append(e.sum, v.vec(2*n+i))
	}
	return e
}

// take widens accumulator i by x.
func (e extreme) take(g *gen, i int, x reg.VecPhysical) {
	g.VMINPS(e.lo[i], x, e.lo[i])
	g.VMAXPS(e.hi[i], x, e.hi[i])
	g.VADDPS(x, e.sum[i], e.sum[i])
}

// isFinite stores into load whether all lanes of sum are finite: their difference to themselves is then zero.
func (g *gen) isFinite(v isa, sum, free reg.VecPhysical) {
	g.VSUBPS(sum, sum, sum)
	if v == avx512 {
		g.VCMPPS(operand.U8(unordered), sum, sum, reg.K1)
		g.KMOVW(reg.K1, regTmp.As32())
	} else {
		g.VCMPPS(operand.U8(unordered), sum, sum, free)
		g.VMOVMSKPS(free, regTmp.As32())
	}
	g.XORL(regSegs.As32(), regSegs.As32())
	g.TESTL(regTmp.As32(), regTmp.As32())
	g.SETEQ(regSegs.As8())
	g.MOVQ(regSegs, g.field(offLoad))
}

// prefetch is how many bytes ahead memory is asked for: arithmetic keeps the processor from looking as far ahead by itself.
const prefetch = 2048

// minMax returns the emitter of the extremes of cols elements, no fewer than a vector, which go to lo and hi. The last vector
// overlaps the one before.
func minMax(v isa) func(g *gen, rows, vecs int) {
	const unroll = 4
	e := v.extreme(unroll)
	x := v.vec(3 * unroll)
	return func(g *gen, _, _ int) {
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offCols), regN)
		g.LEAQ(operand.Mem{Base: regA, Index: regN, Scale: 4, Disp: -v.bytes()}, regPanel) // the last vector
		for i := range unroll {
			g.VMOVUPS(operand.Mem{Base: regA}, e.lo[i])
			g.VMOVUPS(e.lo[i], e.hi[i])
			g.VXORPS(e.sum[i], e.sum[i], e.sum[i])
		}
		block := func(n int) {
			if n > 1 {
				for at := 0; at < n*v.bytes(); at += 64 {
					g.PREFETCHT0(operand.Mem{Base: regA, Disp: prefetch + at})
				}
			}
			for i := range n {
				g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, x)
				e.take(g, i, x)
			}
			g.ADDQ(operand.U32(n*v.bytes()), regA)
		}
		g.SUBQ(operand.U8(unroll*int(v)), regN)
		g.JLT(operand.LabelRef("vectors"))
		g.Label("loop")
		block(unroll)
		g.SUBQ(operand.U8(unroll*int(v)), regN)
		g.JGE(operand.LabelRef("loop"))
		g.Label("vectors")
		g.ADDQ(operand.U8((unroll-1)*int(v)), regN)
		g.JLT(operand.LabelRef("last"))
		g.Label("vector")
		block(1)
		g.SUBQ(operand.U8(int(v)), regN)
		g.JGE(operand.LabelRef("vector"))
		g.Label("last")
		g.VMOVUPS(operand.Mem{Base: regPanel}, x)
		e.take(g, 0, x)
		for i := 1; i < unroll; i++ {
			g.VMINPS(e.lo[i], e.lo[0], e.lo[0])
			g.VMAXPS(e.hi[i], e.hi[0], e.hi[0])
			g.VADDPS(e.sum[i], e.sum[0], e.sum[0])
		}
		g.isFinite(v, e.sum[0], x)
		for _, end := range []struct {
			from, free reg.VecPhysical
			narrow     func(...operand.Op)
			to         int
		}{{e.lo[0], e.lo[1], g.VMINPS, offLo}, {e.hi[0], e.hi[1], g.VMAXPS, offHi}} {
			if v == avx512 {
				g.VEXTRACTF64X4(operand.U8(1), end.from, end.free.AsY())
				end.narrow(end.free.AsY(), end.from.AsY(), end.from.AsY())
			}
			g.VEXTRACTF128(operand.U8(1), end.from.AsY(), end.free.AsX())
			end.narrow(end.free.AsX(), end.from.AsX(), end.from.AsX())
			for _, half := range []uint64{0x0e, 0x01} { // the upper two lanes, the second one
				g.VPERMILPS(operand.U8(half), end.from.AsX(), end.free.AsX())
				end.narrow(end.free.AsX(), end.from.AsX(), end.from.AsX())
			}
			g.VMOVSS(end.from.AsX(), g.field(end.to))
		}
		g.VZEROUPPER()
		g.RET()
	}
}

// channelMinMax returns the emitter of the extremes of each of cols columns over the tile's rows: panel holds the minima, dst
// the maxima. There are no fewer columns than a vector has; the last vector of columns overlaps the one before.
func channelMinMax(v isa) func(g *gen, rows, vecs int) {
	const wide = 4
	all := v.extreme(wide)
	x := v.vec(3 * wide)
	return func(g *gen, _, _ int) {
		left, rowsLeft, col, at := regN, regSegs, regSeg, regTmp
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offPanel), regPanel)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offLda), regLda)
		g.SHLQ(operand.U8(2), regLda)
		g.MOVQ(g.field(offCols), left)
		g.XORQ(col, col)
		for i := range wide {
			g.VXORPS(all.sum[i], all.sum[i], all.sum[i])
		}
		column := func(base reg.GPPhysical, i int) operand.Mem {
			return operand.Mem{Base: base, Index: col, Scale: 4, Disp: i * v.bytes()}
		}
		strip := func(n int, name string) {
			for i := range n {
				g.VMOVUPS(column(regPanel, i), all.lo[i])
				g.VMOVUPS(column(regDst, i), all.hi[i])
			}
			g.LEAQ(column(regA, 0), at)
			g.MOVQ(g.field(offRows), rowsLeft)
			g.Label(name)
			for i := range n {
				g.VMOVUPS(operand.Mem{Base: at, Disp: i * v.bytes()}, x)
				all.take(g, i, x)
			}
			g.ADDQ(regLda, at)
			g.DECQ(rowsLeft)
			g.JNZ(operand.LabelRef(name))
			for i := range n {
				g.VMOVUPS(all.lo[i], column(regPanel, i))
				g.VMOVUPS(all.hi[i], column(regDst, i))
			}
			g.ADDQ(operand.U8(n*int(v)), col)
			g.SUBQ(operand.U8(n*int(v)), left)
		}
		g.SUBQ(operand.U8(wide*int(v)), left)
		g.JLT(operand.LabelRef("narrow"))
		g.Label("strips")
		strip(wide, "rows")
		g.JGE(operand.LabelRef("strips"))
		g.Label("narrow")
		g.ADDQ(operand.U8(wide*int(v)), left)
		g.JZ(operand.LabelRef("done"))
		g.Label("vectors")
		g.CMPQ(left, operand.U8(int(v)))
		g.JGE(operand.LabelRef("whole"))
		g.ADDQ(left, col) // back by what is missing
		g.SUBQ(operand.U8(int(v)), col)
		g.MOVQ(operand.U32(int(v)), left)
		g.Label("whole")
		strip(1, "rows1")
		g.JNZ(operand.LabelRef("vectors"))
		g.Label("done")
		for i := 1; i < wide; i++ {
			g.VADDPS(all.sum[i], all.sum[0], all.sum[0])
		}
		g.isFinite(v, all.sum[0], x)
		g.VZEROUPPER()
		g.RET()
	}
}

// Constants of kernels' grid of bins; a test in package kernels holds them to it.
const (
	binShift = 13
	binTiny  = 1024 // first bin that is no zero or denormal
	binSign  = 1 << 18
	binZeros = 16  // counters of zeros and denormals, one for each lane
	binBlock = 512 // elements whose counters are found before they are incremented
)

// bins returns the emitter of the loop that counts cols elements, a multiple of 16, in counts, block by block: vector
// instructions find the counters of a block and write their numbers to dst, which a second loop increments one by one. (A
// single loop would read numbers that are still on their way to memory.) Zeros have a counter for each lane: with one for
// all, each increment would wait for the one before.
func bins(v isa) func(g *gen, rows, vecs int) {
	const each = 16
	const (
		key = iota // first of two
		index
		negative = iota + 2
		magnitude
		sign
		tiny
		floor
		origin
		side
		last
		lanes // first of two
	)
	vectors := each / int(v)
	r := func(i int) reg.VecPhysical { return v.vec(i) }
	return func(g *gen, _, _ int) {
		counts, keys, scalars, ahead := regPanel, reg.R8, []reg.GPPhysical{reg.R9, reg.R10, reg.R11, reg.R12}, reg.R13
		laneTable(g)
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offCols), regN)
		g.MOVQ(g.field(offCounts), counts)
		g.MOVQ(g.field(offDst), keys)
		spread := func(value operand.Op, to int) {
			g.MOVL(value, regTmp.As32())
			g.VMOVD(regTmp.As32(), r(to).AsX())
			g.VPBROADCASTD(r(to).AsX(), r(to))
		}
		spread(operand.U32(binSign-1), magnitude)
		spread(operand.U32(binSign), sign)
		spread(operand.U32(binTiny), tiny)
		spread(g.field(offSide), side)
		spread(g.field(offFloor), floor)
		spread(operand.U32(binZeros), origin)
		g.VPSUBD(r(origin), r(floor), r(origin))
		g.MOVL(g.field(offCounts+8), regTmp.As32()) // len(counts)
		g.DECL(regTmp.As32())
		g.VMOVD(regTmp.As32(), r(last).AsX())
		g.VPBROADCASTD(r(last).AsX(), r(last))
		for i := range vectors {
			from := operand.NewDataAddr(operand.NewStaticSymbol("lanes"), i*v.bytes())
			g.VMOVUPS(from, r(lanes+i))
		}
		g.Label("block")
		g.MOVQ(regN, regSegs)
		g.CMPQ(regSegs, operand.U32(binBlock))
		g.JLE(operand.LabelRef("fits"))
		g.MOVQ(operand.U32(binBlock), regSegs)
		g.Label("fits")
		g.SUBQ(regSegs, regN)
		g.MOVQ(regSegs, regSeg)
		g.Label("loop")
		for i := range vectors {
			k, n, u := r(key+2*i), r(negative), r(index+2*i)
			g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, k)
			g.VPSRLD(operand.U8(binShift), k, k)
			if v == avx512 {
				g.VPANDD(r(magnitude), k, u)
				g.VPCMPUD(operand.U8(lessThan), r(tiny), u, reg.K1)
				g.VPTESTMD(r(sign), k, reg.K2)
				g.VPMAXUD(r(floor), u, u)
				g.VPSUBD(r(origin), u, u)
				g.VPADDD(r(side), u, reg.K2, u)
				g.VMOVDQA32(r(lanes+i), reg.K1, u)
			} else {
				g.VPAND(r(magnitude), k, u)
				g.VPCMPGTD(r(magnitude), k, n) // the sign bit is set
				g.VPAND(r(side), n, n)
				g.VPCMPGTD(u, r(tiny), k)
				g.VPMAXUD(r(floor), u, u)
				g.VPSUBD(r(origin), u, u)
				g.VPADDD(n, u, u)
				g.VPBLENDVB(k, r(lanes+i), u, u)
			}
			g.VPMINUD(r(last), u, u) // whatever x holds, nothing beside counts is touched
			g.VMOVUPS(u, operand.Mem{Base: keys, Disp: i * v.bytes()})
		}
		g.ADDQ(operand.U8(4*each), regA)
		g.ADDQ(operand.U8(4*each), keys)
		g.SUBQ(operand.U8(each), regSegs)
		g.JNZ(operand.LabelRef("loop"))
		g.MOVQ(regA, ahead) // from keys to the elements two blocks on: counting takes longer than memory does
		g.MOVQ(g.field(offDst), keys)
		g.SUBQ(keys, ahead)
		g.Label("count")
		g.PREFETCHT0(operand.Mem{Base: keys, Index: ahead, Scale: 1, Disp: 4 * binBlock})
		for i := range each {
			s := scalars[i%len(scalars)]
			g.MOVL(operand.Mem{Base: keys, Disp: 4 * i}, s.As32())
			g.INCL(operand.Mem{Base: counts, Index: s, Scale: 4})
		}
		g.ADDQ(operand.U8(4*each), keys)
		g.SUBQ(operand.U8(each), regSeg)
		g.JNZ(operand.LabelRef("count"))
		g.MOVQ(g.field(offDst), keys)
		g.TESTQ(regN, regN)
		g.JNZ(operand.LabelRef("block"))
		g.VZEROUPPER()
		g.RET()
	}
}

const lessThan = 1

// laneTable declares the numbers 0 to 15.
func laneTable(g *gen) {
	g.StaticGlobal("lanes")
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		g.AddDatum(4*i, operand.U32(i))
	}
}

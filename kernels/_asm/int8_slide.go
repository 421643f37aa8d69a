package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var int8SlideFiles = []file{
	{"avx512vnni", []family{
		{"slide8Stride1", 6, 1, slide(1)},
		{"slide8Stride2", 6, 1, slide(2)},
	}},
}

// Registers of slide beside the accumulators.
const (
	slideZero  = 24
	slideOrder = 25
	slideTmp   = 26 // and five more
)

// slide returns the emitter of depthwise tiles of 64 channels for kernels of 3 x 3 without dilation, positions stride columns
// apart. The three rows of the input are taken column by column: the bytes of a channel are brought together in an element,
// (row 0, row 1, row 2, 0), once for all the positions whose windows have that column. A panel has, for each column of the kernel,
// four vectors of such elements.
func slide(stride int) func(g *gen, rows, vecs int) {
	const size = 3
	v := avx512
	return func(g *gen, rows, _ int) {
		if stride == 1 && rows == 1 {
			laneOrder(g)
		}
		acc := v.accumulators(rows, 4)
		zero, order := v.vec(slideZero), v.vec(slideOrder)
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offCols), reg.RCX)
		g.MOVQ(operand.I32(-1), regTmp)
		g.NEGQ(reg.RCX)
		g.SHRQ(reg.CL, regTmp) // 64-cols zeros before the ones
		g.KMOVQ(regTmp, reg.K1)
		g.start8(v, acc)
		g.MOVQ(g.field(offPanel), regPanel)
		g.MOVQ(g.field(offSegs), regSeg)
		at := []reg.GPPhysical{regRow[0], regRow[1], regRow[2]} // the rows of the input at the column
		for i, r := range at {
			g.MOVQ(operand.Mem{Base: regSeg, Disp: i * size * sizeSeg}, r)
			g.ADDQ(g.field(offA), r)
		}
		step := regLda
		g.MOVQ(operand.Mem{Base: regSeg, Disp: sizeSeg}, step)
		g.SUBQ(operand.Mem{Base: regSeg}, step)
		g.VPXORD(zero, zero, zero)
		g.VMOVUPS(operand.NewDataAddr(operand.NewStaticSymbol("lanes"), 0), order)
		for column := range (rows-1)*stride + size {
			x := [6]reg.VecPhysical{}
			for i := range x {
				x[i] = v.vec(slideTmp + i)
			}
			for i, r := range at {
				g.VMOVDQU8_Z(operand.Mem{Base: r}, reg.K1, x[i])
				g.VPERMD(x[i], order, x[i])
				g.ADDQ(step, r)
			}
			g.VPUNPCKLBW(x[1], x[0], x[3]) // rows 0 and 1
			g.VPUNPCKHBW(x[1], x[0], x[0])
			g.VPUNPCKLBW(zero, x[2], x[4]) // row 2 and nothing
			g.VPUNPCKHBW(zero, x[2], x[2])
			g.VPUNPCKLWD(x[4], x[3], x[1])
			g.VPUNPCKHWD(x[4], x[3], x[3])
			g.VPUNPCKLWD(x[2], x[0], x[4])
			g.VPUNPCKHWD(x[2], x[0], x[0])
			for r := range rows {
				tap := column - r*stride
				if tap < 0 || tap >= size {
					continue
				}
				for q, elements := range []reg.VecPhysical{x[1], x[3], x[4], x[0]} {
					g.VPDPBUSD(operand.Mem{Base: regPanel, Disp: (tap*4 + q) * v.bytes()}, elements, acc[r][q])
				}
			}
		}
		g.finish8(v, acc)
	}
}

// laneOrder declares, for VPERMD, the order of four-byte parts in which unpacking bytes and words, lane by lane, gives the 64
// channels in order.
func laneOrder(g *gen) {
	g.StaticGlobal("lanes")
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for lane := range 4 {
		for q := range 4 {
			g.AddDatum(4*(4*lane+q), operand.U32(uint32(4*q+lane)))
		}
	}
}

package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var elementwiseFiles = []file{
	{"avx2", []family{
		{"addAVX2", 1, 1, elementwise(true, nil, binaryAdd)},
		{"subAVX2", 1, 1, elementwise(true, nil, binarySub)},
		{"mulAVX2", 1, 1, elementwise(true, nil, binaryMul)},
		{"divAVX2", 1, 1, elementwise(true, nil, binaryDiv)},
		{"limitAVX2", 1, 1, elementwise(false, limits, limit)},
		{"fakeAVX2", 1, 1, elementwise(false, fakeConstants, fake)},
	}},
}

// elementwise returns the emitter of a loop over cols elements of a and, if binary, of the panel. prepare loads constants
// into registers Y8 and up; apply computes the result of register x (and y) into x.
func elementwise(binary bool, prepare func(g *gen), apply func(g *gen, x, y reg.VecPhysical)) func(g *gen, rows, vecs int) {
	const unroll = 4
	return func(g *gen, _, _ int) {
		v := avx2
		mask := 15
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offPanel), regPanel)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offCols), regN)
		if prepare != nil {
			prepare(g)
		}
		advance := func(n int) {
			g.ADDQ(operand.U8(n*v.bytes()), regA)
			g.ADDQ(operand.U8(n*v.bytes()), regDst)
			if binary {
				g.ADDQ(operand.U8(n*v.bytes()), regPanel)
			}
		}
		block := func(n int) {
			for i := range n {
				at := i * v.bytes()
				x, y := v.vec(i), v.vec(4+i)
				g.VMOVUPS(operand.Mem{Base: regA, Disp: at}, x)
				if binary {
					g.VMOVUPS(operand.Mem{Base: regPanel, Disp: at}, y)
				}
				apply(g, x, y)
				g.VMOVUPS(x, operand.Mem{Base: regDst, Disp: at})
			}
			advance(n)
		}
		g.SUBQ(operand.U8(unroll*int(v)), regN)
		g.JLT(operand.LabelRef("vectors"))
		g.Label("loop")
		block(unroll)
		g.SUBQ(operand.U8(unroll*int(v)), regN)
		g.JGE(operand.LabelRef("loop"))
		g.Label("vectors")
		g.ADDQ(operand.U8((unroll-1)*int(v)), regN)
		g.JLT(operand.LabelRef("tail"))
		g.Label("vector")
		block(1)
		g.SUBQ(operand.U8(int(v)), regN)
		g.JGE(operand.LabelRef("vector"))
		g.Label("tail")
		g.ADDQ(operand.U8(int(v)), regN)
		g.JZ(operand.LabelRef("done"))
		g.LEAQ(g.columns(), regTmp)
		g.SHLQ(operand.U8(2), regN)
		g.SUBQ(regN, regTmp)
		g.VMOVDQU(operand.Mem{Base: regTmp, Disp: 64}, v.vec(mask))
		x, y := v.vec(0), v.vec(4)
		g.VMASKMOVPS(operand.Mem{Base: regA}, v.vec(mask), x)
		if binary {
			g.VMASKMOVPS(operand.Mem{Base: regPanel}, v.vec(mask), y)
		}
		apply(g, x, y)
		g.VMASKMOVPS(x, v.vec(mask), operand.Mem{Base: regDst})
		g.Label("done")
		g.VZEROUPPER()
		g.RET()
	}
}

// Registers of constants.
const (
	constLo = iota + 8
	constHi
	constScale
	constMagic
)

func limits(g *gen) {
	g.VBROADCASTSS(g.field(offLo), avx2.vec(constLo))
	g.VBROADCASTSS(g.field(offHi), avx2.vec(constHi))
}

// limit is x < lo: lo; x > hi: hi. NaN and zeros of either sign pass, being the second source.
func limit(g *gen, x, _ reg.VecPhysical) {
	g.VMAXPS(x, avx2.vec(constLo), x)
	g.VMINPS(x, avx2.vec(constHi), x)
}

// fakeConstants loads the limits, the scale (the panel's first element) and 1.5*2^23.
func fakeConstants(g *gen) {
	limits(g)
	g.VBROADCASTSS(operand.Mem{Base: regPanel}, avx2.vec(constScale))
	g.MOVL(operand.U32(0x4b400000), regTmp.As32())
	g.VMOVD(regTmp.As32(), reg.X11)
	g.VBROADCASTSS(reg.X11, avx2.vec(constMagic))
}

// fake is qmath.Grid.FakeSlice: divide, NaN to zero, clamp, round by adding and subtracting 1.5*2^23, multiply.
func fake(g *gen, x, y reg.VecPhysical) {
	scale, magic := avx2.vec(constScale), avx2.vec(constMagic)
	g.VDIVPS(scale, x, x)
	g.VCMPPS(operand.U8(ordered), x, x, y)
	g.VANDPS(y, x, x)
	limit(g, x, y)
	g.VADDPS(magic, x, x)
	g.VSUBPS(magic, x, x)
	g.VMULPS(scale, x, x)
}

const ordered = 7

func binaryAdd(g *gen, x, y reg.VecPhysical) { g.VADDPS(y, x, x) }
func binarySub(g *gen, x, y reg.VecPhysical) { g.VSUBPS(y, x, x) }
func binaryMul(g *gen, x, y reg.VecPhysical) { g.VMULPS(y, x, x) }
func binaryDiv(g *gen, x, y reg.VecPhysical) { g.VDIVPS(y, x, x) }

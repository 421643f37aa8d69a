package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.groupQuantizer; a test in package kernels holds them to the struct.
const (
	quantizeX      = 0
	quantizeGroups = 24
	quantizeSize   = 32
	quantizeTo     = 40
	quantizeRows   = 64
	quantizeCodes  = 72
	quantizeStep   = 80
)

var groupsQuantizeFiles = []file{{"avx2", []family{{"quantizeGroupsAVX2", 1, 1, quantizeGroupsRow}}}}

// quantizeGroupsRow quantizes a row in groups of a multiple of 16 elements and writes it to its place among rows rows: by group its
// scale, the negated sum of its codes, and its codes, four each, codes words after the scale and step words apart.
func quantizeGroupsRow(g *gen, _, _ int) {
	const (
		scale = 8 + iota
		sum
		absolute
		half // the number before 0.5
		limit
		negative
	)
	regX, regHead, regRows, regGroups, regSize, regOut, regLeft := reg.RSI, reg.RDI, reg.R8, reg.RCX, reg.R9, reg.R11, reg.RDX
	regCodes, regStep, regNext := reg.R10, reg.R12, reg.R13
	y := avx2.vec
	constant := func(bits uint32, i int) {
		g.MOVL(operand.U32(bits), regTmp.As32())
		g.VMOVD(regTmp.As32(), y(i).AsX())
		g.VPBROADCASTD(y(i).AsX(), y(i))
	}
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(quantizeX), regX)
	g.MOVQ(g.field(quantizeTo), regHead)
	g.MOVQ(g.field(quantizeSize), regSize)
	g.MOVQ(g.field(quantizeRows), regRows)
	g.LEAQ(operand.Mem{Base: regSize, Disp: 8}, regNext) // from group to group: scales, sums and codes of all rows
	g.IMULQ(regRows, regNext)
	g.SHLQ(operand.U8(2), regRows)
	g.MOVQ(g.field(quantizeCodes), regCodes)
	g.MOVQ(g.field(quantizeStep), regStep)
	g.SHLQ(operand.U8(2), regStep)
	g.MOVQ(g.field(quantizeGroups), regGroups)
	constant(0x7fffffff, absolute)
	constant(0x3effffff, half)
	constant(0x42fe0000, limit) // 127
	constant(0x80000000, negative)

	g.Label("group")
	// The largest magnitude: as integers, magnitudes have the order of the numbers, and NaN is above infinity.
	g.VPXOR(y(0), y(0), y(0))
	g.XORQ(regLeft, regLeft)
	g.Label("largest")
	for i := range 2 {
		g.VPAND(operand.Mem{Base: regX, Index: regLeft, Scale: 4, Disp: 32 * i}, y(absolute), y(1))
		g.VPMAXUD(y(1), y(0), y(0))
	}
	g.ADDQ(operand.U8(16), regLeft)
	g.CMPQ(regLeft, regSize)
	g.JLT(operand.LabelRef("largest"))
	g.VEXTRACTI128(operand.U8(1), y(0), reg.X1)
	g.VPMAXUD(reg.X1, reg.X0, reg.X0)
	g.VPSHUFD(operand.U8(0x4e), reg.X0, reg.X1)
	g.VPMAXUD(reg.X1, reg.X0, reg.X0)
	g.VPSHUFD(operand.U8(0xb1), reg.X0, reg.X1)
	g.VPMAXUD(reg.X1, reg.X0, reg.X0)
	g.VMOVD(reg.X0, regTmp.As32())
	g.LEAQ(operand.Mem{Base: regHead, Index: regCodes, Scale: 4}, regOut)
	g.CMPL(regTmp.As32(), operand.U32(0x7f800000))
	g.JGE(operand.LabelRef("broken"))
	g.VDIVSS(y(limit).AsX(), reg.X0, reg.X0)
	g.VMOVD(reg.X0, regTmp.As32())
	g.TESTL(regTmp.As32(), regTmp.As32())
	g.JZ(operand.LabelRef("zeros"))
	g.MOVL(regTmp.As32(), operand.Mem{Base: regHead})
	g.VBROADCASTSS(reg.X0, y(scale))

	g.VPXOR(y(sum), y(sum), y(sum))
	g.XORQ(regLeft, regLeft)
	g.Label("codes")
	for i := range 2 {
		x, t := y(i), y(2+i)
		g.VMOVUPS(operand.Mem{Base: regX, Index: regLeft, Scale: 4, Disp: 32 * i}, x)
		g.VDIVPS(y(scale), x, x)
		g.VPAND(y(negative), x, t)
		g.VPOR(y(half), t, t)
		g.VADDPS(t, x, x)
		// Scales that are denormal are coarse: a quotient may lie beyond 127.
		g.VPAND(y(negative), x, t)
		g.VPAND(y(absolute), x, x)
		g.VMINPS(y(limit), x, x)
		g.VPOR(t, x, x)
		g.VCVTTPS2DQ(x, x)
		g.VPADDD(x, y(sum), y(sum))
	}
	g.VPACKSSDW(y(1), y(0), y(0))
	g.VPERMQ(operand.U8(0xd8), y(0), y(0))
	g.VEXTRACTI128(operand.U8(1), y(0), reg.X1)
	g.VPACKSSWB(reg.X1, reg.X0, reg.X0)
	for i := range 4 {
		g.VPEXTRD(operand.U8(i), reg.X0, operand.Mem{Base: regOut})
		g.ADDQ(regStep, regOut)
	}
	g.ADDQ(operand.U8(16), regLeft)
	g.CMPQ(regLeft, regSize)
	g.JLT(operand.LabelRef("codes"))
	g.VEXTRACTI128(operand.U8(1), y(sum), reg.X1)
	g.VPADDD(reg.X1, y(sum).AsX(), reg.X0)
	g.VPSHUFD(operand.U8(0x4e), reg.X0, reg.X1)
	g.VPADDD(reg.X1, reg.X0, reg.X0)
	g.VPSHUFD(operand.U8(0xb1), reg.X0, reg.X1)
	g.VPADDD(reg.X1, reg.X0, reg.X0)
	g.VMOVD(reg.X0, regTmp.As32())
	g.NEGL(regTmp.As32())
	g.MOVL(regTmp.As32(), operand.Mem{Base: regHead, Index: regRows, Scale: 1})

	g.Label("next")
	g.LEAQ(operand.Mem{Base: regX, Index: regSize, Scale: 4}, regX)
	g.ADDQ(regNext, regHead)
	g.DECQ(regGroups)
	g.JNZ(operand.LabelRef("group"))
	g.end()

	g.Label("broken")
	g.MOVL(operand.U32(0x7fc00000), regTmp.As32()) // NaN
	g.Label("zeros")                               // the scale is in regTmp
	g.MOVL(regTmp.As32(), operand.Mem{Base: regHead})
	g.XORQ(regTmp, regTmp)
	g.MOVL(regTmp.As32(), operand.Mem{Base: regHead, Index: regRows, Scale: 1})
	g.XORQ(regLeft, regLeft)
	g.Label("clear")
	g.MOVL(regTmp.As32(), operand.Mem{Base: regOut})
	g.ADDQ(regStep, regOut)
	g.ADDQ(operand.U8(4), regLeft)
	g.CMPQ(regLeft, regSize)
	g.JLT(operand.LabelRef("clear"))
	g.JMP(operand.LabelRef("next"))
}

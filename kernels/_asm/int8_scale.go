package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.outTile; a test in package kernels holds them to the struct.
const (
	outAcc           = 0
	outDst           = 24
	outF32           = 48
	outResidual      = 72
	outLacc          = 96
	outLdd           = 104
	outLdr           = 112
	outRows          = 120
	outCols          = 128
	outFactor        = 136
	outBias          = 160
	outDivisor       = 184
	outLo            = 188
	outHi            = 192
	outResidualScale = 196
	outQMin          = 202
	outQMax          = 203
	outMost          = 212
	outResidualZero  = 216
	outZero          = 220
	outPlain         = 224
)

var scaleFiles = []file{
	{"avx512", []family{
		{"scaleU8AVX512", 1, 1, scaleU8(avx512)},
		{"scaleF32AVX512", 1, 1, scaleF32(avx512)},
	}},
	{"avx2", []family{
		{"scaleU8AVX2", 1, 1, scaleU8(avx2)},
		{"scaleF32AVX2", 1, 1, scaleF32(avx2)},
	}},
}

// General registers of output kernels.
var (
	outRegAcc      = reg.RSI // the block's first row
	outRegDst      = reg.RDI
	outRegResidual = reg.R8 // 0: none
	outRegFactor   = reg.RBX
	outRegBias     = reg.RDX // 0: none
	outRegCols     = reg.RCX // columns left
	outRegRows     = reg.R9  // rows left
	outRowAcc      = reg.R10 // the row at hand
	outRowDst      = reg.R11
	outRowResidual = reg.R12
	outStepAcc     = reg.R13 // bytes from row to row
	outStepDst     = reg.R15
)

// Vector registers of output kernels: values 0 and 1, then these.
const (
	vecFactor        = 2 // and 3
	vecBias          = 4 // and 5
	vecLo            = 6
	vecHi            = 7
	vecMost          = 8
	vecZero          = 9  // words
	vecQMin          = 10 // bytes
	vecResidualScale = 11
	vecResidualZero  = 12
	vecDivisor       = 13
	vecOrder         = 14
	vecTmp           = 15
)

// second returns the registers of a second row of values.
func (v isa) second(i int) reg.VecPhysical {
	if v == avx512 {
		return v.vec(16 + i)
	}
	return v.vec(vecTmp)
}

// qmax returns the register of the largest code, bytes.
func (v isa) qmax() reg.VecPhysical {
	if v == avx512 {
		return v.vec(18)
	}
	return v.vec(1)
}

// blockVecs is how many vectors a block of columns has.
func (v isa) blockVecs() int {
	if v == avx512 {
		return 2
	}
	return 1
}

// scaleU8 returns the emitter of the kernel that turns sums into codes. Columns are taken in blocks of blockVecs vectors, and
// the rows of a block one after the other, in pairs where nothing but factors is to be applied and the factors are so small that
// no value leaves int32. On AVX2 the number of columns is a multiple of 8.
func scaleU8(v isa) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		byteOrder(g, v)
		g.scaleBegin(v, outDst)
		g.MOVQ(g.field(outResidual), outRegResidual)
		g.VBROADCASTSS(g.field(outMost), v.vec(vecMost))
		g.VPBROADCASTW(g.field(outZero), v.vec(vecZero))
		g.VPBROADCASTB(g.field(outQMin), v.vec(vecQMin))
		g.VBROADCASTSS(g.field(outResidualScale), v.vec(vecResidualScale))
		g.VPBROADCASTD(g.field(outResidualZero), v.vec(vecResidualZero))
		g.VBROADCASTSS(g.field(outDivisor), v.vec(vecDivisor))
		g.VPBROADCASTB(g.field(outQMax), v.qmax())
		g.VMOVUPS(operand.NewDataAddr(operand.NewStaticSymbol("order"), 0), v.vec(vecOrder))
		g.scaleBlocks(v, 1, func() { g.scalePairs(v) }, func() {
			g.scaleReal(v)
			g.TESTQ(outRegResidual, outRegResidual)
			g.JZ(operand.LabelRef("limit"))
			for i := range v.blockVecs() {
				tmp := v.vec(vecTmp)
				from := operand.Mem{Base: outRowResidual, Disp: i * int(v)}
				if v == avx512 {
					g.VPMOVZXBD_Z(from, masks[i], tmp)
				} else {
					g.VPMOVZXBD(from, tmp)
				}
				g.VPSUBD(v.vec(vecResidualZero), tmp, tmp)
				g.VCVTDQ2PS(tmp, tmp)
				g.VMULPS(v.vec(vecResidualScale), tmp, tmp)
				g.VADDPS(tmp, v.vec(i), v.vec(i))
			}
			g.ADDQ(g.field(outLdr), outRowResidual)
			g.Label("limit")
			g.scaleLimit(v)
			g.CMPL(g.field(outDivisor), operand.U8(0))
			g.JE(operand.LabelRef("round"))
			for i := range v.blockVecs() {
				g.VDIVPS(v.vec(vecDivisor), v.vec(i), v.vec(i))
			}
			g.Label("round")
			for i := range v.blockVecs() {
				// What is below the range of int32 becomes its least number, and so it would above it.
				g.VMINPS(v.vec(vecMost), v.vec(i), v.vec(i))
				g.VCVTPS2DQ(v.vec(i), v.vec(i))
			}
			x := v.vec(0)
			g.VPACKSSDW(v.vec(v.blockVecs()-1), x, x)
			g.VPADDSW(v.vec(vecZero), x, x)
			g.VPACKUSWB(x, x, x)
			g.VPMAXUB(v.vec(vecQMin), x, x)
			g.VPERMD(x, v.vec(vecOrder), x)
			if v == avx512 {
				g.VMOVDQU8(reg.Y0, reg.K3, operand.Mem{Base: outRowDst})
			} else {
				g.VMOVQ(reg.X0, operand.Mem{Base: outRowDst})
			}
		})
	}
}

// scalePairs computes pairs of rows where that is possible, and leaves at most one row.
func (g *gen) scalePairs(v isa) {
	g.CMPQ(g.field(outPlain), operand.U8(0))
	g.JE(operand.LabelRef("row"))
	for i := range v.blockVecs() { // the magnitude of every factor is to be 0.5 at most
		tmp := v.vec(vecTmp)
		g.VPSLLD(operand.U8(1), v.vec(vecFactor+i), tmp)
		g.VPSRLD(operand.U8(1), tmp, tmp)
		g.VPBROADCASTD(operand.NewDataAddr(operand.NewStaticSymbol("half"), 0), v.vec(0))
		if v == avx512 {
			g.VPCMPGTD(v.vec(0), tmp, reg.K4)
			g.KORTESTW(reg.K4, reg.K4)
		} else {
			g.VPCMPGTD(v.vec(0), tmp, tmp)
			g.VPTEST(tmp, tmp)
		}
		g.JNZ(operand.LabelRef("row"))
	}
	g.SUBQ(operand.U8(2), outRegRows)
	g.JLT(operand.LabelRef("odd"))
	g.Label("pair")
	for i := range v.blockVecs() {
		g.scaleLoad(v, outRowAcc, i, v.vec(i))
	}
	g.ADDQ(outStepAcc, outRowAcc)
	for i := range v.blockVecs() {
		g.scaleLoad(v, outRowAcc, i, v.second(i))
	}
	g.ADDQ(outStepAcc, outRowAcc)
	for i := range v.blockVecs() {
		g.VCVTPS2DQ(v.vec(i), v.vec(i))
		g.VCVTPS2DQ(v.second(i), v.second(i))
	}
	x := v.vec(0)
	if v == avx512 {
		g.VPACKSSDW(v.vec(1), x, x)
		g.VPACKSSDW(v.second(1), v.second(0), v.second(0))
		g.VPADDSW(v.vec(vecZero), x, x)
		g.VPADDSW(v.vec(vecZero), v.second(0), v.second(0))
		g.VPACKUSWB(v.second(0), x, x)
	} else {
		g.VPACKSSDW(v.second(0), x, x)
		g.VPADDSW(v.vec(vecZero), x, x)
		g.VPACKUSWB(x, x, x)
	}
	g.VPMAXUB(v.vec(vecQMin), x, x)
	g.VPMINUB(v.qmax(), x, x)
	g.VPERMD(x, v.vec(vecOrder), x)
	to := operand.Mem{Base: outRowDst}
	if v == avx512 {
		g.VMOVDQU8(reg.Y0, reg.K3, to)
		g.VEXTRACTI64X4(operand.U8(1), reg.Z0, reg.Y0)
		g.ADDQ(outStepDst, outRowDst)
		g.VMOVDQU8(reg.Y0, reg.K3, to)
	} else {
		g.VMOVQ(reg.X0, to)
		g.ADDQ(outStepDst, outRowDst)
		g.VPEXTRQ(operand.U8(1), reg.X0, to)
	}
	g.ADDQ(outStepDst, outRowDst)
	g.SUBQ(operand.U8(2), outRegRows)
	g.JGE(operand.LabelRef("pair"))
	g.Label("odd")
	g.ADDQ(operand.U8(2), outRegRows)
	g.JZ(operand.LabelRef("next"))
}

// scaleF32 returns the emitter of the kernel that turns sums into float32.
func scaleF32(v isa) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		g.scaleBegin(v, outF32)
		g.XORQ(outRegResidual, outRegResidual)
		g.SHLQ(operand.U8(2), outStepDst)
		g.scaleBlocks(v, 4, func() {}, func() {
			g.scaleReal(v)
			g.scaleLimit(v)
			for i := range v.blockVecs() {
				to := operand.Mem{Base: outRowDst, Disp: i * v.bytes()}
				if v == avx512 {
					g.VMOVUPS(v.vec(i), masks[i], to)
				} else {
					g.VMOVUPS(v.vec(i), to)
				}
			}
		})
	}
}

// scaleBegin loads what stays in registers; the output is at the pointer at offset dst.
func (g *gen) scaleBegin(v isa, dst int) {
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(outAcc), outRegAcc)
	g.MOVQ(g.field(dst), outRegDst)
	g.MOVQ(g.field(outFactor), outRegFactor)
	g.MOVQ(g.field(outBias), outRegBias)
	g.MOVQ(g.field(outCols), outRegCols)
	g.MOVQ(g.field(outLacc), outStepAcc)
	g.SHLQ(operand.U8(2), outStepAcc)
	g.MOVQ(g.field(outLdd), outStepDst)
	g.VBROADCASTSS(g.field(outLo), v.vec(vecLo))
	g.VBROADCASTSS(g.field(outHi), v.vec(vecHi))
}

// scaleBlocks emits the loops over blocks of columns and over rows. size is that of an element of the output; first may compute
// some rows and jump to "next" when there are none left.
func (g *gen) scaleBlocks(v isa, size int, first, row func()) {
	n := v.blockVecs()
	width := n * int(v)
	g.Label("block")
	if v == avx512 {
		g.blockMasks()
	}
	for i := range n {
		g.loadColumns(v, outRegFactor, i, v.vec(vecFactor+i))
	}
	g.TESTQ(outRegBias, outRegBias)
	g.JZ(operand.LabelRef("start"))
	for i := range n {
		g.loadColumns(v, outRegBias, i, v.vec(vecBias+i))
	}
	g.ADDQ(operand.U32(uint32(4*width)), outRegBias)
	g.Label("start")
	g.MOVQ(outRegAcc, outRowAcc)
	g.MOVQ(outRegDst, outRowDst)
	g.MOVQ(outRegResidual, outRowResidual)
	g.MOVQ(g.field(outRows), outRegRows)
	first()
	g.Label("row")
	row()
	g.ADDQ(outStepAcc, outRowAcc)
	g.ADDQ(outStepDst, outRowDst)
	g.DECQ(outRegRows)
	g.JNZ(operand.LabelRef("row"))
	g.Label("next")
	g.ADDQ(operand.U32(uint32(4*width)), outRegAcc)
	g.ADDQ(operand.U32(uint32(4*width)), outRegFactor)
	g.ADDQ(operand.U32(uint32(size*width)), outRegDst)
	g.TESTQ(outRegResidual, outRegResidual)
	g.JZ(operand.LabelRef("more"))
	g.ADDQ(operand.U32(uint32(width)), outRegResidual)
	g.Label("more")
	g.SUBQ(operand.U32(uint32(width)), outRegCols)
	g.JG(operand.LabelRef("block"))
	g.VZEROUPPER()
	g.RET()
}

// blockMasks makes masks of the next 32 columns: K1 and K2 of 16 each, K3 of all.
func (g *gen) blockMasks() {
	g.MOVQ(operand.I32(-1), regRow[0])
	g.CMPQ(outRegCols, operand.U8(32))
	g.JGE(operand.LabelRef("masks"))
	g.MOVQ(operand.U32(1), regRow[0])
	g.SHLQ(reg.CL, regRow[0])
	g.DECQ(regRow[0])
	g.Label("masks")
	g.KMOVD(regRow[0].As32(), reg.K3)
	g.KMOVW(regRow[0].As32(), reg.K1)
	g.SHRL(operand.U8(16), regRow[0].As32())
	g.KMOVW(regRow[0].As32(), reg.K2)
}

// loadColumns reads vector i of the block at base.
func (g *gen) loadColumns(v isa, base reg.Register, i int, to reg.VecPhysical) {
	from := operand.Mem{Base: base, Disp: i * v.bytes()}
	if v == avx512 {
		g.VMOVUPS_Z(from, masks[i], to)
		return
	}
	g.VMOVUPS(from, to)
}

// scaleLoad computes float32(acc) * factor of vector i of a row.
func (g *gen) scaleLoad(v isa, from reg.Register, i int, to reg.VecPhysical) {
	at := operand.Mem{Base: from, Disp: i * v.bytes()}
	if v == avx512 {
		g.VCVTDQ2PS_Z(at, masks[i], to)
	} else {
		g.VCVTDQ2PS(at, to)
	}
	g.VMULPS(v.vec(vecFactor+i), to, to)
}

// scaleReal computes float32(acc) * factor + bias of a row.
func (g *gen) scaleReal(v isa) {
	for i := range v.blockVecs() {
		g.scaleLoad(v, outRowAcc, i, v.vec(i))
	}
	g.TESTQ(outRegBias, outRegBias)
	g.JZ(operand.LabelRef("biased"))
	for i := range v.blockVecs() {
		g.VADDPS(v.vec(vecBias+i), v.vec(i), v.vec(i))
	}
	g.Label("biased")
}

// scaleLimit applies the limits.
func (g *gen) scaleLimit(v isa) {
	for i := range v.blockVecs() {
		// With x as the second source, MAX and MIN return x for zeros of either sign.
		g.VMAXPS(v.vec(i), v.vec(vecLo), v.vec(i))
		g.VMINPS(v.vec(i), v.vec(vecHi), v.vec(i))
	}
}

// byteOrder declares, for VPERMD, where the bytes of each four columns stand after packing in lanes of 128 bits, and 0.5.
func byteOrder(g *gen, v isa) {
	g.StaticGlobal("order")
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	order := []uint32{0, 4, 1, 5, 2, 6, 3, 7}
	if v == avx512 {
		order = []uint32{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}
	}
	for i, d := range order {
		g.AddDatum(4*i, operand.U32(d))
	}
	g.StaticGlobal("half")
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	g.AddDatum(0, operand.U32(0x3f000000))
}

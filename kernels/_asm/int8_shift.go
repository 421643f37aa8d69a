package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.outTile that only shiftU8 reads.
const (
	outMul       = 232
	outExp       = 256
	outFirst     = 288
	outFirstHalf = 296
	outSecond    = 304
	outLeft      = 308
	outHalfMask  = 312
	outHalfLess  = 320
	outSignMask  = 328
	outEvenMask  = 336
	outLeast64   = 344
	outMost64    = 352
	outZero64    = 360
)

var shiftFiles = []file{
	{"avx512", []family{{"shiftU8AVX512", 1, 1, shiftU8}}},
}

// shiftU8 emits the kernel that turns sums into codes by multipliers and shifts, 16 columns at a time. Products have 64 bits, so
// even and odd columns go separate ways. All roundings are one sequence, whose constants decide (see kernels.shiftSteps):
//
//	p = (acc << left) * mul
//	v = (p + firstHalf) >> first
//	v = (v + half + (v>>63 & sign) + (v>>second & even)) >> second
//	code = min(max(v, least), most) + zero
//
// Each column has its own left, second, and what follows from them: half = 1 << (second-1), less one if ties go to even, and no
// half and no sign where second is 0 or nothing is rounded.
func shiftU8(g *gen, _, _ int) {
	z := avx512.vec
	x, bit, v, tmp := z(0), z(1), z(2), z(3)
	left, first, firstHalf, even := z(12), z(13), z(14), z(15)
	least, most, zero := z(16), z(17), z(18)
	mul, second, half, sign := [2]reg.VecPhysical{z(4), z(5)}, [2]reg.VecPhysical{z(6), z(7)}, [2]reg.VecPhysical{z(8), z(9)},
		[2]reg.VecPhysical{z(10), z(11)}
	one, halfMask, halfLess, signMask, base, leftMask, result := z(19), z(20), z(21), z(22), z(23), z(24), z(25)
	mulPointer, expPointer := outRegFactor, outRegBias

	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(outAcc), outRegAcc)
	g.MOVQ(g.field(outDst), outRegDst)
	g.MOVQ(g.field(outMul), mulPointer)
	g.MOVQ(g.field(outExp), expPointer)
	g.MOVQ(g.field(outCols), outRegCols)
	g.MOVQ(g.field(outLacc), outStepAcc)
	g.SHLQ(operand.U8(2), outStepAcc)
	g.MOVQ(g.field(outLdd), outStepDst)
	for _, c := range []struct {
		off int
		to  reg.VecPhysical
	}{{outFirst, first}, {outFirstHalf, firstHalf}, {outHalfMask, halfMask}, {outHalfLess, halfLess}, {outSignMask, signMask},
		{outEvenMask, even},
		{outLeast64, least}, {outMost64, most}, {outZero64, zero}} {
		g.VPBROADCASTQ(g.field(c.off), c.to)
	}
	g.VPBROADCASTD(g.field(outSecond), base)
	g.VPBROADCASTD(g.field(outLeft), leftMask)
	g.VPTERNLOGD(operand.U8(0xff), one, one, one)
	g.VPSRLQ(operand.U8(63), one, one)

	g.Label("block")
	g.MOVQ(operand.U32(0xffff), regRow[0])
	g.CMPQ(outRegCols, operand.U8(16))
	g.JGE(operand.LabelRef("masks"))
	g.MOVQ(operand.U32(1), regRow[0])
	g.SHLQ(reg.CL, regRow[0])
	g.DECQ(regRow[0])
	g.Label("masks")
	g.KMOVW(regRow[0].As32(), reg.K1)
	g.VMOVDQU32_Z(operand.Mem{Base: mulPointer}, reg.K1, mul[0])
	g.VPSRLQ(operand.U8(32), mul[0], mul[1])
	g.VMOVDQU8_Z(operand.Mem{Base: expPointer}, reg.K1, reg.X0)
	g.VPMOVSXBD(reg.X0, left)
	g.VPXORD(tmp, tmp, tmp)
	g.VPSUBD(left, base, v)
	g.VPMAXSD(tmp, v, v) // what is shifted right in the end
	g.VPMAXSD(tmp, left, left)
	g.VPANDD(leftMask, left, left)
	g.VPSRLQ(operand.U8(32), v, second[1])
	g.VPSLLQ(operand.U8(32), v, v)
	g.VPSRLQ(operand.U8(32), v, second[0])
	for i := range 2 {
		g.VPSUBQ(one, second[i], half[i])
		g.VPSLLVQ(half[i], one, half[i]) // 0 for counts of 64 and more, as -1 is
		g.VPANDQ(halfMask, half[i], half[i])
		g.VPADDQ(halfLess, half[i], half[i])
		g.VPTESTMQ(second[i], second[i], reg.K2)
		g.VMOVDQA64_Z(signMask, reg.K2, sign[i])
	}
	g.MOVQ(outRegAcc, outRowAcc)
	g.MOVQ(outRegDst, outRowDst)
	g.MOVQ(g.field(outRows), outRegRows)

	g.Label("row")
	g.VMOVDQU32_Z(operand.Mem{Base: outRowAcc}, reg.K1, x)
	g.VPSLLVD(left, x, x)
	for i := range 2 {
		if i == 1 {
			g.VPSRLQ(operand.U8(32), x, x)
		}
		g.VPMULDQ(mul[i], x, v)
		g.VPADDQ(firstHalf, v, v)
		g.VPSRAVQ(first, v, v)
		g.VPSRAQ(operand.U8(63), v, tmp)
		g.VPANDQ(sign[i], tmp, tmp)
		g.VPSRAVQ(second[i], v, bit)
		g.VPANDQ(even, bit, bit)
		g.VPADDQ(bit, tmp, tmp)
		g.VPADDQ(half[i], v, v)
		g.VPADDQ(tmp, v, v)
		g.VPSRAVQ(second[i], v, v)
		g.VPMAXSQ(least, v, v)
		g.VPMINSQ(most, v, v)
		g.VPADDQ(zero, v, v)
		if i == 0 {
			g.VMOVDQA64(v, result)
		}
	}
	g.VPSLLQ(operand.U8(32), v, v)
	g.VPORQ(v, result, v)
	g.VPMOVDB(v, reg.X3)
	g.VMOVDQU8(reg.X3, reg.K1, operand.Mem{Base: outRowDst})
	g.ADDQ(outStepAcc, outRowAcc)
	g.ADDQ(outStepDst, outRowDst)
	g.DECQ(outRegRows)
	g.JNZ(operand.LabelRef("row"))
	g.ADDQ(operand.U8(64), outRegAcc)
	g.ADDQ(operand.U8(64), mulPointer)
	g.ADDQ(operand.U8(16), expPointer)
	g.ADDQ(operand.U8(16), outRegDst)
	g.SUBQ(operand.U8(16), outRegCols)
	g.JG(operand.LabelRef("block"))
	g.VZEROUPPER()
	g.RET()
}

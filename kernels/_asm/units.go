package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var unitsFiles = []file{
	{"avx512", []family{{"unitsAVX512", 1, 1, units(avx512)}}},
	{"avx2", []family{{"unitsAVX2", 1, 1, units(avx2)}}},
}

// Offsets of the fields of kernels.unitsTile; a test in package kernels holds them to it.
const (
	offUnitsX      = 0
	offUnitsSums   = 8
	offUnitsRows   = 16
	offUnitsCols   = 24
	offUnitsStride = 32
	offUnitsScale  = 40
	offUnitsLo     = 48
	offUnitsHi     = 52
	offUnitsOdd    = 56
)

// unitsMagic is 1.5 * 2^52: added to a whole number below 2^51, it leaves that number in the lowest bits of the sum.
const unitsMagic = 0x4338_0000_0000_0000

// units returns the emitter of the sums of columns in whole units. A number is limited, multiplied by the scale and added to the magic
// number with one rounding; the bits of the result are added as integers, and the magic bits of all rows are taken off before. What the
// rounding changed shows in odd. The columns are a multiple of half a vector.
func units(v isa) func(g *gen, _, _ int) {
	const wide = 4
	const (
		odd = wide + iota
		magic
		scale
		lo
		hi
		x
		r
		d
		taken
	)
	lanes := int(v) / 2
	return func(g *gen, _, _ int) {
		sums, at, rowsLeft, stride := regDst, regTmp, regSegs, regLda
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offUnitsX), regA)
		g.MOVQ(g.field(offUnitsSums), sums)
		g.MOVQ(g.field(offUnitsCols), regN)
		g.MOVQ(g.field(offUnitsStride), stride)
		g.SHLQ(operand.U8(2), stride)
		g.VBROADCASTSD(g.field(offUnitsScale), v.vec(scale))
		g.VBROADCASTSS(g.field(offUnitsLo), half(v, lo))
		g.VBROADCASTSS(g.field(offUnitsHi), half(v, hi))
		g.MOVQ(operand.U64(unitsMagic), at)
		g.VMOVQ(at, v.vec(magic).AsX())
		g.VPBROADCASTQ(v.vec(magic).AsX(), v.vec(magic))
		g.IMULQ(g.field(offUnitsRows), at)
		g.VMOVQ(at, v.vec(taken).AsX())
		g.VPBROADCASTQ(v.vec(taken).AsX(), v.vec(taken))
		g.VXORPS(v.vec(odd), v.vec(odd), v.vec(odd))
		or := func(a, b reg.VecPhysical) {
			if v == avx512 {
				g.VPORQ(a, b, b)
			} else {
				g.VPOR(a, b, b)
			}
		}
		strip := func(n int) {
			for i := range n {
				g.VMOVUPS(operand.Mem{Base: sums, Disp: i * v.bytes()}, v.vec(i))
				g.VPSUBQ(v.vec(taken), v.vec(i), v.vec(i))
			}
			g.MOVQ(regA, at)
			g.MOVQ(g.field(offUnitsRows), rowsLeft)
			name := fmt.Sprintf("rows%d", n)
			g.Label(name)
			for i := range n {
				g.VMAXPS(operand.Mem{Base: at, Disp: 4 * i * lanes}, half(v, lo), half(v, x))
				g.VMINPS(half(v, hi), half(v, x), half(v, x))
				g.VCVTPS2PD(half(v, x), v.vec(x))
				g.VMOVAPD(v.vec(magic), v.vec(r))
				g.VFMADD231PD(v.vec(scale), v.vec(x), v.vec(r))
				g.VSUBPD(v.vec(magic), v.vec(r), v.vec(d))
				g.VFMSUB231PD(v.vec(scale), v.vec(x), v.vec(d))
				or(v.vec(d), v.vec(odd))
				g.VPADDQ(v.vec(r), v.vec(i), v.vec(i))
			}
			g.ADDQ(stride, at)
			g.DECQ(rowsLeft)
			g.JNZ(operand.LabelRef(name))
			for i := range n {
				g.VMOVUPS(v.vec(i), operand.Mem{Base: sums, Disp: i * v.bytes()})
			}
			g.ADDQ(operand.U32(n*v.bytes()), sums)
			g.ADDQ(operand.U32(4*n*lanes), regA)
			g.SUBQ(operand.U8(n*lanes), regN)
		}
		g.SUBQ(operand.U8(wide*lanes), regN)
		g.JLT(operand.LabelRef("narrow"))
		g.Label("strips")
		strip(wide)
		g.JGE(operand.LabelRef("strips"))
		g.Label("narrow")
		g.ADDQ(operand.U8(wide*lanes), regN)
		g.JZ(operand.LabelRef("done"))
		g.Label("vectors")
		strip(1)
		g.JNZ(operand.LabelRef("vectors"))
		g.Label("done")
		// A difference of zero may have a sign.
		g.VPADDQ(v.vec(odd), v.vec(odd), v.vec(odd))
		low := v.vec(odd).AsY()
		if v == avx512 {
			g.VEXTRACTI64X4(operand.U8(1), v.vec(odd), v.vec(d).AsY())
			g.VPOR(v.vec(d).AsY(), low, low)
		}
		g.VEXTRACTI128(operand.U8(1), low, v.vec(d).AsX())
		g.VPOR(v.vec(d).AsX(), v.vec(odd).AsX(), v.vec(odd).AsX())
		g.VPUNPCKHQDQ(v.vec(odd).AsX(), v.vec(odd).AsX(), v.vec(d).AsX())
		g.VPOR(v.vec(d).AsX(), v.vec(odd).AsX(), v.vec(odd).AsX())
		g.VMOVQ(v.vec(odd).AsX(), at)
		g.MOVQ(at, g.field(offUnitsOdd))
		g.end()
	}
}

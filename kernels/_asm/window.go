package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// step adds one element of the window, at from, to the accumulator of row r. On AVX-512 memory operands are masked by K1, on
// AVX2 they are loaded by a masked move: nothing is read beyond the last channel.
type step func(g *gen, v isa, from operand.Mem, acc reg.VecPhysical)

// Registers of a window tile beside the accumulators, counted from the last one.
const (
	lastWeights = 1 // weights of the window position; start value of the accumulators
	lastMask    = 2
	lastX       = 3
	lastNaN     = 4
)

var windowFiles = []file{
	{"avx512", []family{
		{"depthwiseAVX512", 8, 1, window(avx512, true, multiplyAdd)},
		{"maxWindowAVX512", 8, 1, window(avx512, false, larger)},
		{"sumWindowAVX512", 8, 1, window(avx512, false, add)},
	}},
	{"avx2", []family{
		{"depthwiseAVX2", 8, 1, window(avx2, true, multiplyAdd)},
		{"maxWindowAVX2", 8, 1, window(avx2, false, larger)},
		{"sumWindowAVX2", 8, 1, window(avx2, false, add)},
	}},
}

// Registers of the loop over columns.
var (
	regCols      = regN // columns left
	regBiasLeft  = reg.R13
	regDstColumn = reg.R14
)

// window returns the emitter of tiles of any number of channels for up to eight positions, which take one element of each row
// for every segment. Channels are taken one vector at a time. weighted tiles also take one vector of the panel for every
// segment; others start from the value of tile.lo.
func window(v isa, weighted bool, each step) func(g *gen, rows, vecs int) {
	return func(g *gen, rows, vecs int) {
		acc := v.accumulators(rows, vecs)
		weights := v.vec(v.count() - lastWeights)
		mask := v.count() - lastMask
		g.begin(rows)
		g.MOVQ(g.field(offCols), regCols)
		g.MOVQ(g.field(offDst), regDstColumn)
		g.MOVQ(g.field(offBias), regBiasLeft)
		g.Label("column")
		g.masksLeft(v, mask)
		if weighted {
			g.zero(acc)
		} else {
			g.VBROADCASTSS(g.field(offLo), weights)
			for _, row := range acc {
				g.VMOVUPS(weights, row[0])
			}
		}
		g.MOVQ(g.field(offSegs), regSeg)
		g.MOVQ(g.field(offNSegs), regSegs)
		g.Label("next")
		g.MOVQ(operand.Mem{Base: regSeg}, regTmp)
		g.ADDQ(operand.U8(sizeSeg), regSeg)
		g.LEAQ(operand.Mem{Base: regA, Index: regTmp, Scale: 4}, regRow[0])
		if rows > 5 {
			g.LEAQ(operand.Mem{Base: regRow[0], Index: regLda5, Scale: 1}, regRow[1])
		}
		if weighted {
			g.VMOVUPS(operand.Mem{Base: regPanel}, weights)
			g.ADDQ(operand.U8(v.bytes()), regPanel)
		}
		for r := range rows {
			each(g, v, row(r, 0), acc[r][0])
		}
		g.DECQ(regSegs)
		g.JNZ(operand.LabelRef("next"))
		if weighted {
			g.bound(v, acc, mask)
		}
		g.MOVQ(regDstColumn, regDst)
		g.MOVQ(g.field(offLdd), regLdd)
		for r, row := range acc {
			if r > 0 {
				g.LEAQ(operand.Mem{Base: regDst, Index: regLdd, Scale: 4}, regDst)
			}
			g.storeMasked(v, row[0], 0, mask, operand.Mem{Base: regDst})
		}
		g.ADDQ(operand.U8(v.bytes()), regA)
		g.ADDQ(operand.U8(v.bytes()), regDstColumn)
		g.SUBQ(operand.U8(uint8(v)), regCols)
		g.JG(operand.LabelRef("column"))
		g.VZEROUPPER()
		g.RET()
	}
}

// bound adds the bias, if there is one, and applies the limits.
func (g *gen) bound(v isa, acc [][]reg.VecPhysical, mask int) {
	lo, hi := v.vec(v.count()-lastWeights), v.vec(v.count()-lastX)
	g.TESTQ(regBiasLeft, regBiasLeft)
	g.JZ(operand.LabelRef("limit"))
	g.loadMasked(v, operand.Mem{Base: regBiasLeft}, 0, mask, lo)
	g.ADDQ(operand.U8(v.bytes()), regBiasLeft)
	for _, row := range acc {
		g.VADDPS(lo, row[0], row[0])
	}
	g.Label("limit")
	g.VBROADCASTSS(g.field(offLo), lo)
	g.VBROADCASTSS(g.field(offHi), hi)
	for _, row := range acc {
		// With x as the second source, MAX and MIN return x for NaN and for zeros of either sign.
		g.VMAXPS(row[0], lo, row[0])
		g.VMINPS(row[0], hi, row[0])
	}
}

// masksLeft makes the mask of the columns left, as many as a vector holds: K1 on AVX-512, register at on AVX2.
func (g *gen) masksLeft(v isa, at int) {
	g.MOVQ(regCols, reg.RCX)
	g.MOVQ(operand.U32(uint32(v)), regTmp)
	g.CMPQ(reg.RCX, regTmp)
	g.CMOVQGT(regTmp, reg.RCX)
	if v == avx512 {
		g.MOVQ(operand.U32(1), regTmp)
		g.SHLQ(reg.CL, regTmp)
		g.DECQ(regTmp)
		g.KMOVW(regTmp.As32(), masks[0])
		return
	}
	g.LEAQ(g.columns(), regTmp)
	g.SHLQ(operand.U8(2), reg.RCX)
	g.SUBQ(reg.RCX, regTmp)
	g.VMOVDQU(operand.Mem{Base: regTmp, Disp: 64}, v.vec(at))
}

// multiplyAdd is acc += x * weights, fused.
func multiplyAdd(g *gen, v isa, from operand.Mem, acc reg.VecPhysical) {
	weights := v.vec(v.count() - lastWeights)
	if v == avx512 {
		g.VFMADD231PS(from, weights, reg.K1, acc)
		return
	}
	g.VFMADD231PS(g.load(v, from), weights, acc)
}

// add is acc += x.
func add(g *gen, v isa, from operand.Mem, acc reg.VecPhysical) {
	if v == avx512 {
		g.VADDPS(from, acc, reg.K1, acc)
		return
	}
	g.VADDPS(g.load(v, from), acc, acc)
}

// larger is acc = x if x > acc or x is NaN and acc is not.
//
// MAX returns its second source for NaN and for zeros: with acc there, acc stays. What is left are the lanes where x alone
// is NaN, for which x + acc is NaN, and so it is wherever one of the two is.
func larger(g *gen, v isa, from operand.Mem, acc reg.VecPhysical) {
	x, nan := g.load(v, from), v.vec(v.count()-lastNaN)
	if v == avx512 {
		g.VCMPPS(operand.U8(unordered), x, x, reg.K3)
		g.VMAXPS(acc, x, acc)
		g.VMOVUPS(x, reg.K3, acc)
		return
	}
	g.VCMPPS(operand.U8(unordered), x, x, nan)
	g.VMAXPS(acc, x, acc)
	g.VBLENDVPS(nan, x, acc, acc)
}

const unordered = 3

// load reads the tile's columns of a row into a register of its own.
func (g *gen) load(v isa, from operand.Mem) reg.VecPhysical {
	x := v.vec(v.count() - lastX)
	g.loadMasked(v, from, 0, v.count()-lastMask, x)
	return x
}

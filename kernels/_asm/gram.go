package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var gramFiles = []file{
	{"avx512vnni", []family{{"gramAVX512VNNI", 1, 1, gram(avx512, 8, evexPairs)}}},
	{"avx512", []family{{"gramAVX512", 1, 1, gram(avx512, 8, maddPairs)}}},
	{"avxvnni", []family{{"gramAVXVNNI", 1, 1, gram(avx2, 4, vexPairs)}}},
	{"avx2", []family{{"gramAVX2", 1, 1, gram(avx2, 4, maddPairs)}}},
}

// Offsets of the fields of kernels.gramTile, and the width of its panels; a test in package kernels holds them to it.
const (
	offGramA     = 0
	offGramB     = 8
	offGramDst   = 16
	offGramPairs = 24
	gramLanes    = 32
)

// Registers beside the accumulators and the two vectors of b, counted from the end.
const (
	gramBroadcast = 1
	gramProduct   = 2
	gramB         = 4
)

// gram returns the emitter of the products of two panels of 32 columns, each element a pair of int16 of two rows. A tile of rows columns of
// a and two vectors of columns of b is summed in 32 bits over all pairs, then added to the 64-bit sums. Tiles of the columns of a follow
// each other in a loop, those of b in the code.
func gram(v isa, rows int, step func(g *gen, b, a, product, acc reg.VecPhysical)) func(g *gen, _, _ int) {
	const vecs = 2
	return func(g *gen, _, _ int) {
		acc := v.accumulators(rows, vecs)
		last := func(i int) reg.VecPhysical { return v.vec(v.count() - i) }
		a, b, left := reg.R12, reg.R13, regSegs
		g.Load(g.Param("t"), regTile)
		g.MOVQ(operand.Mem{Base: regTile, Disp: offGramA}, regA)
		g.MOVQ(operand.Mem{Base: regTile, Disp: offGramB}, regPanel)
		g.MOVQ(operand.Mem{Base: regTile, Disp: offGramDst}, regDst)
		g.MOVQ(operand.U32(gramLanes/rows), left)
		g.Label("tile")
		for col := 0; col < gramLanes; col += vecs * int(v) {
			loop := fmt.Sprintf("loop%d", col)
			g.zero(acc)
			g.MOVQ(regA, a)
			g.MOVQ(regPanel, b)
			g.MOVQ(operand.Mem{Base: regTile, Disp: offGramPairs}, regN)
			g.Label(loop)
			for i := range vecs {
				g.VMOVUPS(operand.Mem{Base: b, Disp: col*4 + i*v.bytes()}, last(gramB-i))
			}
			for r := range rows {
				g.VPBROADCASTD(operand.Mem{Base: a, Disp: 4 * r}, last(gramBroadcast))
				for i := range vecs {
					step(g, last(gramB-i), last(gramBroadcast), last(gramProduct), acc[r][i])
				}
			}
			g.ADDQ(operand.U32(4*gramLanes), a)
			g.ADDQ(operand.U32(4*gramLanes), b)
			g.DECQ(regN)
			g.JNZ(operand.LabelRef(loop))
			for r := range rows {
				for i := range vecs {
					g.addWide(v, acc[r][i], last(gramProduct), operand.Mem{Base: regDst, Disp: 8 * (r*gramLanes + col + i*int(v))})
				}
			}
		}
		g.ADDQ(operand.U32(4*rows), regA)
		g.ADDQ(operand.U32(8*rows*gramLanes), regDst)
		g.DECQ(left)
		g.JNZ(operand.LabelRef("tile"))
		g.end()
	}
}

// addWide adds the 32-bit integers of x to 64-bit ones in memory; x is lost.
func (g *gen) addWide(v isa, x, wide reg.VecPhysical, to operand.Mem) {
	for half := range 2 {
		low := x.AsY()
		if v == avx2 {
			low = x.AsX()
		}
		if half == 1 {
			to.Disp += v.bytes()
			if v == avx512 {
				g.VEXTRACTI64X4(operand.U8(1), x, low)
			} else {
				g.VEXTRACTI128(operand.U8(1), x, low)
			}
		}
		g.VPMOVSXDQ(low, wide)
		g.VPADDQ(to, wide, wide)
		if v == avx512 {
			g.VMOVDQU64(wide, to)
		} else {
			g.VMOVDQU(wide, to)
		}
	}
}

// maddPairs adds the products of pairs, in two steps.
func maddPairs(g *gen, b, a, product, acc reg.VecPhysical) {
	g.VPMADDWD(b, a, product)
	g.VPADDD(product, acc, acc)
}

// evexPairs adds the products of pairs in one step.
func evexPairs(g *gen, b, a, _, acc reg.VecPhysical) { g.VPDPWSSD(b, a, acc) }

// vexPairs is evexPairs in the VEX encoding.
func vexPairs(g *gen, b, a, _, acc reg.VecPhysical) { g.vexSums(vpdpwssd, b, a, acc) }

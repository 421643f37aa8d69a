package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var int8WindowFiles = []file{
	{"avx512", []family{
		{"depthwise8AVX512VNNI", 6, 4, channels(avx512, evexDot)},
		{"depthwise8AVX512", 6, 4, channels(avx512, pairs)},
	}},
	{"avx2", []family{{"depthwise8AVX2", 6, 2, channels(avx2, pairs)}}},
}

// pairs adds to every element of acc the products of the low and the high halves of x and weights, and leaves them in x.
func pairs(g *gen, weights, x, acc reg.VecPhysical) {
	g.VPMADDWD(weights, x, x)
	g.VPADDD(x, acc, acc)
}

// channels returns the emitter of depthwise tiles. A byte of a and a weight stand alone in the lowest quarter of an element, so
// that a dot product of the element is one product. A panel is as wide as the widest tile. On AVX-512 nothing is read beyond the last
// channel; on AVX2 the number of columns is a multiple of 8.
func channels(v isa, dot func(g *gen, weights, x, acc reg.VecPhysical)) func(g *gen, rows, vecs int) {
	width := 4
	if v == avx2 {
		width = 2
	}
	return func(g *gen, rows, vecs int) {
		acc := v.accumulators(rows, vecs)
		weights := v.count() - width - 1
		x := v.vec(v.count() - 1)
		g.Load(g.Param("t"), regTile)
		if v == avx512 {
			g.MOVQ(g.field(offCols), reg.RCX)
			g.ADDQ(operand.I32(-16*(vecs-1)), reg.RCX) // columns of the last vector
			g.MOVQ(operand.U32(1), regTmp)
			g.SHLQ(reg.CL, regTmp)
			g.DECQ(regTmp)
			g.KMOVW(regTmp.As32(), reg.K1)
		}
		g.begin8(rows)
		g.start8(v, acc)
		g.Label("next")
		g.segment8(rows)
		for i := range vecs {
			g.VMOVUPS(operand.Mem{Base: regPanel, Disp: i * v.bytes()}, v.vec(weights+i))
		}
		g.ADDQ(operand.U32(uint32(width*v.bytes())), regPanel)
		for r := range rows {
			for i := range vecs {
				if from := row(r, i*int(v)); v == avx512 && i == vecs-1 {
					g.VPMOVZXBD_Z(from, reg.K1, x)
				} else {
					g.VPMOVZXBD(from, x)
				}
				dot(g, v.vec(weights+i), x, acc[r][i])
			}
		}
		g.DECQ(regSegs)
		g.JNZ(operand.LabelRef("next"))
		g.finish8(v, acc)
	}
}

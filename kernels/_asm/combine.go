package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var combineFiles = []file{
	{"avx512", []family{{"combineAVX512", 1, 4, combine(avx512)}}},
	{"avx2", []family{{"combineAVX2", 1, 4, combine(avx2)}}},
}

// combine is, for blocks blocks of 16 columns,
//
//	dst[16*b+i] = sum over k in 0..cols of float32(a[k] * panel[b*ldd+k*lda+i])
//
// in the order of k, every operation rounded.
func combine(v isa) func(g *gen, rows, blocks int) {
	return func(g *gen, _, blocks int) {
		vecs := rowLanes / int(v)
		acc := func(b, i int) reg.VecPhysical { return v.vec(b*vecs + i) }
		factor := v.vec(v.count() - 1)
		apart, apart3 := regLdd, reg.R13
		each := func(f func(b, i int)) {
			for b := range blocks {
				for i := range vecs {
					f(b, i)
				}
			}
		}
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offPanel), regPanel)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offLda), regLda)
		g.SHLQ(operand.U8(2), regLda)
		g.MOVQ(g.field(offLdd), apart)
		g.SHLQ(operand.U8(2), apart)
		g.LEAQ(operand.Mem{Base: apart, Index: apart, Scale: 2}, apart3)
		g.MOVQ(g.field(offCols), regN)
		each(func(b, i int) { g.VXORPS(acc(b, i), acc(b, i), acc(b, i)) })
		g.Label("loop")
		g.VBROADCASTSS(operand.Mem{Base: regA}, factor)
		each(func(b, i int) {
			m, product := operand.Mem{Base: regPanel, Disp: i * v.bytes()}, v.vec(v.count()-2-(b*vecs+i)%2)
			switch b {
			case 1, 2:
				m.Index, m.Scale = apart, uint8(b)
			case 3:
				m.Index, m.Scale = apart3, 1
			}
			g.VMULPS(m, factor, product)
			g.VADDPS(product, acc(b, i), acc(b, i))
		})
		g.ADDQ(operand.U8(4), regA)
		g.ADDQ(regLda, regPanel)
		g.DECQ(regN)
		g.JNZ(operand.LabelRef("loop"))
		each(func(b, i int) {
			g.VMOVUPS(acc(b, i), operand.Mem{Base: regDst, Disp: (b*rowLanes*4 + i*v.bytes())})
		})
		g.end()
	}
}

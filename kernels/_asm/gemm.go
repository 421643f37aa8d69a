package main

import "github.com/mmcloughlin/avo/operand"

var gemmFiles = []file{
	{"avx512", []family{{"gemmAVX512", 14, 2, gemm(avx512)}}},
	{"avx2", []family{{"gemmAVX2", 6, 2, gemm(avx2)}}},
}

// gemm returns the emitter of gemm tiles. A panel is always two vectors wide; tiles of one vector use its first half.
//
// For every element of k the panel's vectors are loaded once, each row's element is broadcast from row-major a, and one
// multiply-add per row and vector follows. Four elements are unrolled. Meanwhile what the strip says is prefetched: weights
// are often read from memory, which takes as long as computing with them, and so happens at the same time.
func gemm(v isa) func(g *gen, rows, vecs int) {
	const unroll = 4
	return func(g *gen, rows, vecs int) {
		s := newStrip(g, v, rows, vecs)
		width := 2 * v.bytes() // of a panel
		b := v.count() - 2     // registers of the panel's vectors
		x := v.count() - 4     // two registers for broadcasts, taken in turn
		turn := 0
		element := func(u int) {
			for i := range vecs {
				g.VMOVUPS(operand.Mem{Base: regPanel, Disp: u*width + i*v.bytes()}, v.vec(b+i))
			}
			for r := range rows {
				bc := v.vec(x + turn%2)
				turn++
				g.VBROADCASTSS(s.row(r, 4*u), bc)
				for i := range vecs {
					g.VFMADD231PS(v.vec(b+i), bc, s.acc[r][i])
				}
			}
		}
		advance := func(n int) {
			s.advance(n)
			g.ADDQ(operand.U32(uint32(n*width)), regPanel)
		}

		s.begin()
		g.Label("next")
		s.segment()
		g.SUBQ(operand.U8(unroll), regN)
		g.JLT(operand.LabelRef("rest"))
		g.Label("loop")
		s.prefetch()
		for u := range unroll {
			for i := range vecs * v.bytes() / 64 {
				g.PREFETCHT0(operand.Mem{Base: regPanel, Disp: 1024 + u*width + 64*i})
			}
			element(u)
		}
		advance(unroll)
		g.SUBQ(operand.U8(unroll), regN)
		g.JGE(operand.LabelRef("loop"))
		g.Label("rest")
		g.ADDQ(operand.U8(unroll), regN)
		g.JZ(operand.LabelRef("done"))
		g.Label("single")
		element(0)
		advance(1)
		g.DECQ(regN)
		g.JNZ(operand.LabelRef("single"))
		g.Label("done")
		g.DECQ(regSegs)
		g.JNZ(operand.LabelRef("next"))
		s.finish()
	}
}

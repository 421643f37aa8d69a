package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depthwise returns the emitter of depthwise tiles: one vector of channels for up to eight positions. A segment is one
// position of the kernel: its weights are loaded once and multiplied with the input of every row.
func depthwise(v isa) func(g *gen, rows, vecs int) {
	return func(g *gen, rows, vecs int) {
		acc := v.accumulators(rows, vecs)
		weights, mask, x := v.vec(v.count()-1), v.count()-2, v.vec(v.count()-3)
		g.begin(rows)
		g.zero(acc)
		g.columnMasks(v, vecs, mask)
		g.MOVQ(g.field(offNSegs), regSegs)
		g.Label("next")
		g.segment(rows)
		g.VMOVUPS(operand.Mem{Base: regPanel}, weights)
		g.ADDQ(operand.U8(v.bytes()), regPanel)
		for r := range rows {
			if v == avx512 {
				// Masked, so that nothing is read beyond the last channel.
				g.VFMADD231PS(row(r, 0), weights, reg.K1, acc[r][0])
				continue
			}
			g.VMASKMOVPS(row(r, 0), v.vec(mask), x)
			g.VFMADD231PS(x, weights, acc[r][0])
		}
		g.DECQ(regSegs)
		g.JNZ(operand.LabelRef("next"))
		g.epilogue(v, acc)
	}
}

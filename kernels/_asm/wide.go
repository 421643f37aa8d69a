package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Sums of products of float64, added in the order of k, each with one rounding.
var wideFiles = []file{
	{"avx512", []family{{"wideAVX512", 1, 1, wideSums(avx512, 8)}}},
	{"avx2", []family{{"wideAVX2", 1, 1, wideSums(avx2, 4)}}},
}

// Offsets of the fields of kernels.wideTile, and the size of its tile; a test in package kernels holds them to it.
const (
	offWideA   = 0
	offWideB   = 8
	offWideDst = 16
	offWideLdd = 24
	offWideK   = 32
	wideRows   = 8
	wideCols   = 16
)

// wideSums returns the emitter of a tile, in pieces of rows rows and two vectors.
func wideSums(v isa, rows int) func(g *gen, _, _ int) {
	const vecs = 2
	return func(g *gen, _, _ int) {
		acc := v.accumulators(rows, vecs)
		last := func(i int) reg.VecPhysical { return v.vec(v.count() - i) }
		a, b, c, left := reg.R12, reg.R13, reg.R14, regSegs
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offWideA), regA)
		g.MOVQ(g.field(offWideDst), regDst)
		g.MOVQ(g.field(offWideLdd), regLdd8)
		g.MOVQ(operand.U32(wideRows/rows), left)
		g.Label("rows")
		for col := 0; col < wideCols; col += vecs * int(v) / 2 {
			at := func(i int) operand.Mem { return operand.Mem{Base: c, Disp: 8*col + i*v.bytes()} }
			each := func(do func(r, i int)) {
				g.MOVQ(regDst, c)
				for r := range rows {
					for i := range vecs {
						do(r, i)
					}
					g.ADDQ(regLdd8, c)
				}
			}
			each(func(r, i int) { g.VMOVUPD(at(i), acc[r][i]) })
			g.MOVQ(regA, a)
			g.MOVQ(g.field(offWideB), b)
			g.MOVQ(g.field(offWideK), regN)
			loop := fmt.Sprintf("loop%d", col)
			g.Label(loop)
			for i := range vecs {
				g.VMOVUPD(operand.Mem{Base: b, Disp: 8*col + i*v.bytes()}, last(1+i))
			}
			for r := range rows {
				g.VBROADCASTSD(operand.Mem{Base: a, Disp: 8 * r}, last(3))
				for i := range vecs {
					g.VFMADD231PD(last(1+i), last(3), acc[r][i])
				}
			}
			g.ADDQ(operand.U32(8*wideRows), a)
			g.ADDQ(operand.U32(8*wideCols), b)
			g.DECQ(regN)
			g.JNZ(operand.LabelRef(loop))
			each(func(r, i int) { g.VMOVUPD(acc[r][i], at(i)) })
		}
		g.ADDQ(operand.U32(8*rows), regA)
		g.MOVQ(c, regDst)
		g.DECQ(left)
		g.JNZ(operand.LabelRef("rows"))
		g.end()
	}
}

var regLdd8 = reg.R8 // distance of rows in bytes

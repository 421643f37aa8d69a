package main

import (
	"github.com/mmcloughlin/avo/operand"
)

// Sums by column add x - y to sums of float64, eight columns at a time, row after row. Every operation is rounded.
var columnsFiles = []file{
	{"avx512", []family{{"columnsAVX512", 1, 1, columns(avx512)}}},
	{"avx2", []family{{"columnsAVX2", 1, 1, columns(avx2)}}},
}

// Offsets of the fields of kernels.columnsTile; a test in package kernels holds them to the struct.
const (
	offColumnsX      = 0
	offColumnsY      = 8
	offColumnsSums   = 16
	offColumnsRows   = 24
	offColumnsStride = 32
	columnsAtOnce    = 8
)

func columns(v isa) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		regX, regY, regSums := regA, regPanel, regDst
		lanes := int(v) / 2
		n := columnsAtOnce / lanes
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offColumnsX), regX)
		g.MOVQ(g.field(offColumnsY), regY)
		g.MOVQ(g.field(offColumnsSums), regSums)
		g.MOVQ(g.field(offColumnsRows), regN)
		g.MOVQ(g.field(offColumnsStride), regTile)
		for k := range n {
			g.VMOVUPD(operand.Mem{Base: regSums, Disp: k * lanes * 8}, v.vec(k))
		}
		g.Label("rows")
		for k := range n {
			g.VCVTPS2PD(operand.Mem{Base: regX, Disp: k * lanes * 4}, v.vec(compareX))
			g.VCVTPS2PD(operand.Mem{Base: regY, Disp: k * lanes * 4}, v.vec(compareY))
			g.VSUBPD(v.vec(compareY), v.vec(compareX), v.vec(compareD))
			g.VADDPD(v.vec(compareD), v.vec(k), v.vec(k))
		}
		g.ADDQ(regTile, regX)
		g.ADDQ(regTile, regY)
		g.DECQ(regN)
		g.JG(operand.LabelRef("rows"))
		for k := range n {
			g.VMOVUPD(v.vec(k), operand.Mem{Base: regSums, Disp: k * lanes * 8})
		}
		g.end()
	}
}

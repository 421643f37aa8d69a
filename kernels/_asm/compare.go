package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Comparisons add to sums of 16 lanes of float64 for a multiple of 16 elements; the rest is done in Go. Every operation is
// rounded.
var compareFiles = []file{
	{"avx512", compareFamilies("AVX512", avx512)},
	{"avx2", compareFamilies("AVX2", avx2)},
}

func compareFamilies(suffix string, v isa) []family {
	return []family{
		{"compare" + suffix, 1, 1, comparison(v, false, 4, (*gen).compareStep)},
		{"parts" + suffix, 1, 1, comparison(v, true, 3, (*gen).partsStep)},
	}
}

// Offsets of the fields of kernels.sums; a test in package kernels holds them to the struct.
const (
	offSumsX     = 0
	offSumsY     = 8
	offSumsZ     = 16
	offSumsN     = 24
	offSumsLanes = 32
)

// comparison returns the emitter of a loop that adds to n sums. Half of the vector registers hold two vectors of each sum: all 16
// lanes on AVX-512, on AVX2 a half of them, and the loop runs twice.
func comparison(v isa, three bool, n int, step func(g *gen, v isa, sums []reg.VecPhysical)) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		regX, regY, regZ := regA, regPanel, regDst
		lanes := int(v) / 2 // of a vector
		for first := 0; first < rowLanes; first += 2 * lanes {
			loop := fmt.Sprintf("loop%d", first)
			at := func(sum, k int) operand.Mem {
				return operand.Mem{Base: regTile, Disp: offSumsLanes + (sum*rowLanes+first+k*lanes)*8}
			}
			acc := func(k int) []reg.VecPhysical {
				var list []reg.VecPhysical
				for s := range n {
					list = append(list, v.vec(2*s+k))
				}
				return list
			}
			g.Load(g.Param("t"), regTile)
			g.MOVQ(operand.Mem{Base: regTile, Disp: offSumsX}, regX)
			g.MOVQ(operand.Mem{Base: regTile, Disp: offSumsY}, regY)
			if three {
				g.MOVQ(operand.Mem{Base: regTile, Disp: offSumsZ}, regZ)
			}
			g.MOVQ(operand.Mem{Base: regTile, Disp: offSumsN}, regN)
			for k := range 2 {
				for s, a := range acc(k) {
					g.VMOVUPD(at(s, k), a)
				}
			}
			g.Label(loop)
			for k := range 2 {
				disp := (first + k*lanes) * 4
				g.VCVTPS2PD(operand.Mem{Base: regX, Disp: disp}, v.vec(compareX))
				g.VCVTPS2PD(operand.Mem{Base: regY, Disp: disp}, v.vec(compareY))
				if three {
					g.VCVTPS2PD(operand.Mem{Base: regZ, Disp: disp}, v.vec(compareZ))
				}
				step(g, v, acc(k))
			}
			g.ADDQ(operand.U8(4*rowLanes), regX)
			g.ADDQ(operand.U8(4*rowLanes), regY)
			if three {
				g.ADDQ(operand.U8(4*rowLanes), regZ)
			}
			g.SUBQ(operand.U8(rowLanes), regN)
			g.JG(operand.LabelRef(loop))
			for k := range 2 {
				for s, a := range acc(k) {
					g.VMOVUPD(a, at(s, k))
				}
			}
		}
		g.end()
	}
}

// Registers of one vector of each operand, and of differences.
const (
	compareX = iota + 8
	compareY
	compareZ
	compareD
	compareE
)

// compareStep adds (x-y)^2, y^2, x^2 and x*y.
func (g *gen) compareStep(v isa, sums []reg.VecPhysical) {
	x, y, d := v.vec(compareX), v.vec(compareY), v.vec(compareD)
	g.VSUBPD(y, x, d)
	g.VMULPD(d, d, d)
	g.VADDPD(d, sums[0], sums[0])
	g.VMULPD(y, y, d)
	g.VADDPD(d, sums[1], sums[1])
	g.VMULPD(y, x, y)
	g.VADDPD(y, sums[3], sums[3])
	g.VMULPD(x, x, x)
	g.VADDPD(x, sums[2], sums[2])
}

// partsStep adds y^2, (z-y)*(x-y) and (x-z)*(x-y).
func (g *gen) partsStep(v isa, sums []reg.VecPhysical) {
	x, y, z, d, e := v.vec(compareX), v.vec(compareY), v.vec(compareZ), v.vec(compareD), v.vec(compareE)
	g.VSUBPD(y, x, d)
	g.VSUBPD(y, z, e)
	g.VMULPD(d, e, e)
	g.VADDPD(e, sums[1], sums[1])
	g.VSUBPD(z, x, e)
	g.VMULPD(d, e, e)
	g.VADDPD(e, sums[2], sums[2])
	g.VMULPD(y, y, y)
	g.VADDPD(y, sums[0], sums[0])
}

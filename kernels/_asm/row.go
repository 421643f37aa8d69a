package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Row operations take a multiple of 16 elements; the rest is done in Go. Element i belongs to lane i%16.
var rowFiles = []file{
	{"avx512", rowFamilies("AVX512", avx512)},
	{"avx2", rowFamilies("AVX2", avx2)},
}

func rowFamilies(suffix string, v isa) []family {
	return []family{
		{"rowMax" + suffix, 1, 1, rowMax(v)},
		{"rowSum" + suffix, 1, 1, rowSum(v, false)},
		{"rowSquares" + suffix, 1, 1, rowSum(v, true)},
		{"rowExp" + suffix, 1, 1, rowExp(v)},
		{"normalize" + suffix, 1, 1, normalize(v, false)},
		{"normalizeBias" + suffix, 1, 1, normalize(v, true)},
	}
}

const rowLanes = 16

// eachSixteen loops over the elements in steps of 16; the pointers given advance with regA.
func (g *gen) eachSixteen(pointers []reg.GPPhysical, body func()) {
	g.MOVQ(g.field(offCols), regN)
	g.Label("loop")
	body()
	for _, p := range pointers {
		g.ADDQ(operand.U8(4*rowLanes), p)
	}
	g.SUBQ(operand.U8(rowLanes), regN)
	g.JG(operand.LabelRef("loop"))
}

func (g *gen) end() {
	g.VZEROUPPER()
	g.RET()
}

// half is the register of half the width: it holds as many float32 as the other float64.
func half(v isa, i int) reg.VecPhysical {
	if v == avx512 {
		return avx2.vec(i)
	}
	return []reg.VecPhysical{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7, reg.X8, reg.X9, reg.X10, reg.X11, reg.X12}[i]
}

// doubles returns the registers of 16 float64, from the i-th register on.
func doubles(v isa, i int) []reg.VecPhysical {
	var list []reg.VecPhysical
	for k := range 2 * rowLanes / int(v) {
		list = append(list, v.vec(i+k))
	}
	return list
}

// lane returns the address of the k-th vector of float64 at a pointer to float64 or, scaled down, to float32.
func lane(v isa, p reg.GPPhysical, k, size int) operand.Mem {
	return operand.Mem{Base: p, Disp: k * int(v) / 2 * size}
}

// rowMax is dst[i%16] = larger(dst[i%16], a[i]).
func rowMax(v isa) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offDst), regDst)
		n := rowLanes / int(v)
		for i := range n {
			g.VMOVUPS(operand.Mem{Base: regDst, Disp: i * v.bytes()}, v.vec(i))
		}
		g.eachSixteen([]reg.GPPhysical{regA}, func() {
			for i := range n {
				acc, x, nan := v.vec(i), v.vec(2+i), v.vec(4+i)
				g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, x)
				if v == avx512 {
					g.VCMPPS(operand.U8(unordered), x, x, reg.K3)
					g.VMAXPS(acc, x, acc)
					g.VMOVUPS(x, reg.K3, acc)
					continue
				}
				g.VCMPPS(operand.U8(unordered), x, x, nan)
				g.VMAXPS(acc, x, acc)
				g.VBLENDVPS(nan, x, acc, acc)
			}
		})
		for i := range n {
			g.VMOVUPS(v.vec(i), operand.Mem{Base: regDst, Disp: i * v.bytes()})
		}
		g.end()
	}
}

// rowSum is lanes[i%16] += a[i] in float64, or, with squares, += (a[i]-mean)^2, every operation rounded.
func rowSum(v isa, squares bool) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offLanes), regPanel)
		sums := doubles(v, 0)
		mean := v.vec(v.count() - 1)
		if squares {
			g.VBROADCASTSD(g.field(offMean), mean)
		}
		for k, s := range sums {
			g.VMOVUPD(lane(v, regPanel, k, 8), s)
		}
		g.eachSixteen([]reg.GPPhysical{regA}, func() {
			for k, x := range doubles(v, len(sums)) {
				g.VCVTPS2PD(lane(v, regA, k, 4), x)
				if squares {
					g.VSUBPD(mean, x, x)
					g.VMULPD(x, x, x)
				}
				g.VADDPD(x, sums[k], sums[k])
			}
		})
		for k, s := range sums {
			g.VMOVUPD(s, lane(v, regPanel, k, 8))
		}
		g.end()
	}
}

// rowExp is dst[i] = exp(a[i] - lo), lanes[i%16] += dst[i] in float64.
func rowExp(v isa) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		w := lanes{g, v, rowLanes / int(v)}
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offLanes), regPanel)
		sums := doubles(v, 4*w.n)
		for k, s := range sums {
			g.VMOVUPD(lane(v, regPanel, k, 8), s)
		}
		g.eachSixteen([]reg.GPPhysical{regA, regDst}, func() {
			top := v.vec(w.parameter(offLo)[0])
			for i := range w.value(0) {
				g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, v.vec(i))
				g.VSUBPS(top, v.vec(i), v.vec(i))
			}
			exp(w)
			for i := range w.value(0) {
				g.VMOVUPS(v.vec(i), operand.Mem{Base: regDst, Disp: i * v.bytes()})
			}
			for k, s := range sums {
				x := v.vec(w.n + k%2)
				g.VCVTPS2PD(lane(v, regDst, k, 4), x)
				g.VADDPD(x, s, s)
			}
		})
		for k, s := range sums {
			g.VMOVUPD(s, lane(v, regPanel, k, 8))
		}
		g.end()
	}
}

// normalize is dst[i] = (a[i]-mean) * inv * panel[i] (+ bias[i]) in float64, every operation rounded.
func normalize(v isa, bias bool) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offPanel), regPanel)
		pointers := []reg.GPPhysical{regA, regDst, regPanel}
		if bias {
			g.MOVQ(g.field(offBias), regTmp)
			pointers = append(pointers, regTmp)
		}
		mean, inv := v.vec(14), v.vec(15)
		g.VBROADCASTSD(g.field(offMean), mean)
		g.VBROADCASTSD(g.field(offInv), inv)
		g.eachSixteen(pointers, func() {
			list := doubles(v, 0)
			for k, x := range list {
				y := v.vec(len(list) + k)
				g.VCVTPS2PD(lane(v, regA, k, 4), x)
				g.VSUBPD(mean, x, x)
				g.VMULPD(inv, x, x)
				g.VCVTPS2PD(lane(v, regPanel, k, 4), y)
				g.VMULPD(y, x, x)
				if bias {
					g.VCVTPS2PD(lane(v, regTmp, k, 4), y)
					g.VADDPD(y, x, x)
				}
				if v == avx512 {
					g.VCVTPD2PS(x, half(v, k))
				} else {
					g.VCVTPD2PSY(x, half(v, k))
				}
				g.VMOVUPS(half(v, k), lane(v, regDst, k, 4))
			}
		})
		g.end()
	}
}

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
	{"window_avx512", false, []family{
		{"depthwiseAVX512", 8, 1, window(avx512, true, multiplyAdd)},
		{"maxWindowAVX512", 8, 1, window(avx512, false, larger)},
		{"sumWindowAVX512", 8, 1, window(avx512, false, add)},
	}},
	{"window_avx2", true, []family{
		{"depthwiseAVX2", 8, 1, window(avx2, true, multiplyAdd)},
		{"maxWindowAVX2", 8, 1, window(avx2, false, larger)},
		{"sumWindowAVX2", 8, 1, window(avx2, false, add)},
	}},
}

// window returns the emitter of tiles of one vector of channels for up to eight positions, which take one element of each
// row for every segment. weighted tiles also take one vector of the panel; others start from the value of tile.lo.
func window(v isa, weighted bool, each step) func(g *gen, rows, vecs int) {
	return func(g *gen, rows, vecs int) {
		acc := v.accumulators(rows, vecs)
		weights := v.vec(v.count() - lastWeights)
		g.begin(rows)
		if weighted {
			g.zero(acc)
		} else {
			g.VBROADCASTSS(g.field(offLo), weights)
			for _, row := range acc {
				g.VMOVUPS(weights, row[0])
			}
		}
		g.columnMasks(v, vecs, v.count()-lastMask)
		g.MOVQ(g.field(offNSegs), regSegs)
		g.Label("next")
		g.segment(rows)
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
			g.epilogue(v, acc)
			return
		}
		g.columnMasks(v, vecs, v.count()-lastMask)
		g.output()
		g.store(v, acc, v.count()-lastMask)
	}
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

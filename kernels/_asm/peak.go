package main

import (
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var peakFiles = []file{
	{"avx512", []family{
		{"fmaPeakAVX512", 1, 1, registerLoop(avx512, 16, fmaStep)},
		{"dotPeakAVX512", 1, 1, registerLoop(avx512, 16, dotStep)},
		{"pairPeakAVX512", 1, 1, registerLoop(avx512, 16, pairStep)},
		{"maddPeakAVX512", 1, 1, registerLoop(avx512, 8, maddStep)},
		{"readAVX512", 1, 1, readLoop(avx512)},
	}},
	{"avx2", []family{
		{"fmaPeakAVX2", 1, 1, registerLoop(avx2, 12, fmaStep)},
		{"maddPeakAVX2", 1, 1, registerLoop(avx2, 6, maddStep)},
		{"readAVX2", 1, 1, readLoop(avx2)},
	}},
	{"avxvnni", []family{
		{"dotPeakAVXVNNI", 1, 1, registerLoop(avx2, 12, vexDotStep)},
	}},
}

// registerLoop returns the emitter of a loop of cols iterations over n independent accumulators, the first n registers, which
// begin as zero. The last two registers are sources, the first two vectors of a: multiplying zeros takes less power than numbers
// do, and gives a processor whose clock depends on it a higher one than it ever has in use.
func registerLoop(v isa, n int, step func(g *gen, v isa, i, n int)) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offCols), regN)
		for i := range n {
			g.VXORPS(v.vec(i), v.vec(i), v.vec(i))
		}
		g.MOVQ(g.field(offA), regA)
		a, b := v.sources()
		g.VMOVUPS(operand.Mem{Base: regA}, a)
		g.VMOVUPS(operand.Mem{Base: regA, Disp: v.bytes()}, b)
		g.Label("loop")
		for i := range n {
			step(g, v, i, n)
		}
		g.DECQ(regN)
		g.JNZ(operand.LabelRef("loop"))
		g.VZEROUPPER()
		g.RET()
	}
}

// sources returns the registers that steps multiply.
func (v isa) sources() (a, b reg.VecPhysical) { return v.vec(v.count() - 2), v.vec(v.count() - 1) }

func fmaStep(g *gen, v isa, i, _ int) {
	a, b := v.sources()
	g.VFMADD231PS(b, a, v.vec(i))
}

func dotStep(g *gen, v isa, i, _ int) {
	a, b := v.sources()
	g.VPDPBUSD(b, a, v.vec(i))
}

func pairStep(g *gen, v isa, i, _ int) {
	a, b := v.sources()
	g.VPDPWSSD(b, a, v.vec(i))
}

// maddStep is one product of pairs and its addition, the exact way without VNNI.
func maddStep(g *gen, v isa, i, n int) {
	a, b := v.sources()
	g.VPMADDWD(b, a, v.vec(n+i))
	g.VPADDD(v.vec(n+i), v.vec(i), v.vec(i))
}

// vexDotStep is VPDPBUSD ymm15, ymm14, ymm(i) in its VEX encoding, which the assembler does not write: it takes the EVEX form,
// which needs AVX-512.
func vexDotStep(g *gen, v isa, i, _ int) {
	r := byte(0x80) // inverted extension bit of the accumulator
	if i >= 8 {
		r = 0
	}
	const source = 14
	for _, b := range []byte{0xc4, r | 0x40 | 0x02, byte(^source&0xf)<<3 | 0x05, 0x50, 0xc0 | byte(i%8)<<3 | (15 - 8)} {
		g.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(b)}})
	}
}

// readLoop returns the emitter of a loop that loads cols elements from a, a multiple of 8 vectors, and uses none.
func readLoop(v isa) func(g *gen, rows, vecs int) {
	const unroll = 8
	return func(g *gen, _, _ int) {
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offCols), regN)
		g.Label("loop")
		for i := range unroll {
			g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, v.vec(i))
		}
		g.ADDQ(operand.U32(uint32(unroll*v.bytes())), regA)
		g.SUBQ(operand.U32(uint32(unroll*int(v))), regN)
		g.JNZ(operand.LabelRef("loop"))
		g.VZEROUPPER()
		g.RET()
	}
}

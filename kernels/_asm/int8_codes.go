package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.codes8; a test in package kernels holds them to the struct.
const (
	codesDst     = 0
	codesA       = 24
	codesB       = 48
	codesReal    = 72
	codesN       = 96
	codesRows    = 104
	codesLda     = 112
	codesLdd     = 120
	codesFA      = 128
	codesFB      = 132
	codesK       = 136
	codesFactor  = 140
	codesDivisor = 144
	codesZA      = 148
	codesZB      = 152
	codesLo      = 156
	codesHi      = 160
	codesZero    = 164
)

var codesFiles = []file{
	{"avx512", codesFamilies("AVX512", avx512)},
	{"avx2", codesFamilies("AVX2", avx2)},
}

func codesFamilies(suffix string, v isa) []family {
	emit := func(f func(g *gen, v isa)) func(g *gen, rows, vecs int) {
		return func(g *gen, _, _ int) { f(g, v) }
	}
	return []family{
		{"addCodes" + suffix, 1, 1, emit(addCodes)},
		{"addFused" + suffix, 1, 1, emit(addFused)},
		{"toCodes" + suffix, 1, 1, emit(func(g *gen, v isa) { toCodes(g, v, false) })},
		{"toCodesAway" + suffix, 1, 1, emit(func(g *gen, v isa) { toCodes(g, v, true) })},
		{"fromCodes" + suffix, 1, 1, emit(fromCodes)},
		{"maxCodes" + suffix, 1, 1, emit(maxCodes)},
	}
}

// General registers of operations on bytes.
var (
	codesRegDst = reg.RDI
	codesRegA   = reg.RSI
	codesRegB   = reg.RBX
	codesRegN   = reg.RCX
)

// Vector registers: values 0 to 7, then these.
const (
	codesVecLo = iota + 8
	codesVecHi
	codesVecZA
	codesVecZB
	codesVecFA
	codesVecFB
	codesVecK
	codesVecZero
)

// codesLoop emits a loop over n elements: vector computes the vector at a displacement in elements, of which there are as many as
// in a vector of floats; on AVX-512 with masked the last ones under mask K1. On AVX2 n is a multiple of 8. advance moves pointers
// by so many elements.
func (g *gen) codesLoop(v isa, vector func(i, at int, masked bool), advance func(n int)) {
	const unroll = 2
	g.SUBQ(operand.U8(unroll*int(v)), codesRegN)
	g.JLT(operand.LabelRef("rest"))
	g.Label("loop")
	for i := range unroll {
		vector(i, i*int(v), false)
	}
	advance(unroll * int(v))
	g.SUBQ(operand.U8(unroll*int(v)), codesRegN)
	g.JGE(operand.LabelRef("loop"))
	g.Label("rest")
	g.ADDQ(operand.U8(unroll*int(v)), codesRegN)
	g.JZ(operand.LabelRef("done"))
	g.Label("vector")
	if v == avx512 {
		g.MOVQ(operand.I32(-1), reg.R8)
		g.CMPQ(codesRegN, operand.U8(16))
		g.JGE(operand.LabelRef("mask"))
		g.MOVQ(operand.U32(1), reg.R8)
		g.SHLQ(reg.CL, reg.R8)
		g.DECQ(reg.R8)
		g.Label("mask")
		g.KMOVW(reg.R8L, reg.K1)
	}
	vector(0, 0, v == avx512)
	advance(int(v))
	g.SUBQ(operand.U8(int(v)), codesRegN)
	g.JG(operand.LabelRef("vector"))
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// widen reads bytes as floats of the difference to zero.
func (g *gen) widen(v isa, from reg.Register, at int, masked bool, zero int, to reg.VecPhysical) {
	m := operand.Mem{Base: from, Disp: at}
	if masked {
		g.VPMOVZXBD_Z(m, reg.K1, to)
	} else {
		g.VPMOVZXBD(m, to)
	}
	g.VPSUBD(v.vec(zero), to, to)
	g.VCVTDQ2PS(to, to)
}

// narrow writes floats as bytes: limited, rounded, with the zero point.
func (g *gen) narrow(v isa, x reg.VecPhysical, at int, masked bool) {
	// With x as the second source, MAX and MIN return x for zeros of either sign.
	g.VMAXPS(x, v.vec(codesVecLo), x)
	g.VMINPS(x, v.vec(codesVecHi), x)
	g.VCVTPS2DQ(x, x)
	g.store(v, x, at, masked)
}

// narrowAway is narrow with ties away from zero. The number before 0.5 is added, with the sign of x, before truncation: 0.5 itself
// would raise the number before a half.
func (g *gen) narrowAway(v isa, x, tmp reg.VecPhysical, at int, masked bool) {
	g.VMAXPS(x, v.vec(codesVecLo), x)
	g.VMINPS(x, v.vec(codesVecHi), x)
	if v == avx512 {
		g.VPANDD(v.vec(codesVecFA), x, tmp)
		g.VPORD(v.vec(codesVecFB), tmp, tmp)
	} else {
		g.VPAND(v.vec(codesVecFA), x, tmp)
		g.VPOR(v.vec(codesVecFB), tmp, tmp)
	}
	g.VADDPS(tmp, x, x)
	g.VCVTTPS2DQ(x, x)
	g.store(v, x, at, masked)
}

// store writes integers and the zero point as bytes.
func (g *gen) store(v isa, x reg.VecPhysical, at int, masked bool) {
	g.VPADDD(v.vec(codesVecZero), x, x)
	to := operand.Mem{Base: codesRegDst, Disp: at}
	switch {
	case masked:
		g.VPMOVDB(x, reg.K1, to)
	case v == avx512:
		g.VPMOVDB(x, to)
	default:
		low := x.AsX()
		g.VEXTRACTI128(operand.U8(1), x, reg.X7)
		g.VPACKSSDW(reg.X7, low, low)
		g.VPACKUSWB(low, low, low)
		g.VMOVQ(low, to)
	}
}

// codesBegin loads the pointers and what every operation with limits needs.
func (g *gen) codesBegin(v isa) {
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(codesDst), codesRegDst)
	g.MOVQ(g.field(codesA), codesRegA)
	g.MOVQ(g.field(codesB), codesRegB)
	g.MOVQ(g.field(codesN), codesRegN)
	g.VBROADCASTSS(g.field(codesLo), v.vec(codesVecLo))
	g.VBROADCASTSS(g.field(codesHi), v.vec(codesVecHi))
	g.VPBROADCASTD(g.field(codesZero), v.vec(codesVecZero))
	g.VPBROADCASTD(g.field(codesZA), v.vec(codesVecZA))
	g.VPBROADCASTD(g.field(codesZB), v.vec(codesVecZB))
	g.VBROADCASTSS(g.field(codesFA), v.vec(codesVecFA))
	g.VBROADCASTSS(g.field(codesFB), v.vec(codesVecFB))
}

func (g *gen) advancePair(n int) {
	for _, r := range []reg.Register{codesRegDst, codesRegA, codesRegB} {
		g.ADDQ(operand.U8(n), r)
	}
}

func addFused(g *gen, v isa) {
	g.codesBegin(v)
	g.VBROADCASTSS(g.field(codesK), v.vec(codesVecK))
	g.codesLoop(v, func(i, at int, masked bool) {
		x, y := v.vec(2*i), v.vec(2*i+1)
		g.widen(v, codesRegA, at, masked, codesVecZA, x)
		g.widen(v, codesRegB, at, masked, codesVecZB, y)
		g.VFMADD213PS(v.vec(codesVecK), v.vec(codesVecFB), y)
		g.VFMADD213PS(y, v.vec(codesVecFA), x)
		g.narrow(v, x, at, masked)
	}, g.advancePair)
}

func addCodes(g *gen, v isa) {
	g.codesBegin(v)
	factor, divisor := v.vec(codesVecK), v.vec(6)
	g.VBROADCASTSS(g.field(codesFactor), factor)
	g.VBROADCASTSS(g.field(codesDivisor), divisor)
	g.codesLoop(v, func(i, at int, masked bool) {
		x, y := v.vec(2*i), v.vec(2*i+1)
		g.widen(v, codesRegA, at, masked, codesVecZA, x)
		g.widen(v, codesRegB, at, masked, codesVecZB, y)
		g.VMULPS(v.vec(codesVecFA), x, x)
		g.VMULPS(v.vec(codesVecFB), y, y)
		g.VADDPS(y, x, x)
		g.VMULPS(factor, x, x)
		g.VDIVPS(divisor, x, x)
		g.narrow(v, x, at, masked)
	}, g.advancePair)
}

func toCodes(g *gen, v isa, away bool) {
	g.codesBegin(v)
	g.MOVQ(g.field(codesReal), codesRegA)
	if away {
		for i, bits := range []uint32{1 << 31, 0x3effffff} { // the sign, and the number before 0.5
			g.MOVL(operand.U32(bits), regTmp.As32())
			g.VMOVD(regTmp.As32(), reg.X0)
			g.VPBROADCASTD(reg.X0, v.vec(codesVecFA+i))
		}
	}
	factor, divisor := v.vec(codesVecK), v.vec(6)
	g.VBROADCASTSS(g.field(codesFactor), factor)
	g.VBROADCASTSS(g.field(codesDivisor), divisor)
	g.codesLoop(v, func(i, at int, masked bool) {
		x, y := v.vec(2*i), v.vec(2*i+1)
		from := operand.Mem{Base: codesRegA, Disp: 4 * at}
		if masked {
			g.VMOVUPS_Z(from, reg.K1, x)
		} else {
			g.VMOVUPS(from, x)
		}
		g.VMULPS(factor, x, x)
		g.VDIVPS(divisor, x, x)
		if v == avx512 { // NaN becomes 0
			g.VCMPPS(operand.U8(ordered), x, x, reg.K2)
			g.VMOVAPS_Z(x, reg.K2, x)
		} else {
			g.VCMPPS(operand.U8(ordered), x, x, y)
			g.VANDPS(y, x, x)
		}
		if away {
			g.narrowAway(v, x, y, at, masked)
			return
		}
		g.narrow(v, x, at, masked)
	}, func(n int) {
		g.ADDQ(operand.U8(n), codesRegDst)
		g.ADDQ(operand.U32(uint32(4*n)), codesRegA)
	})
}

func fromCodes(g *gen, v isa) {
	g.codesBegin(v)
	g.MOVQ(g.field(codesReal), codesRegDst)
	g.codesLoop(v, func(i, at int, masked bool) {
		x := v.vec(2 * i)
		g.widen(v, codesRegA, at, masked, codesVecZA, x)
		g.VMULPS(v.vec(codesVecFA), x, x)
		to := operand.Mem{Base: codesRegDst, Disp: 4 * at}
		if masked {
			g.VMOVUPS(x, reg.K1, to)
		} else {
			g.VMOVUPS(x, to)
		}
	}, func(n int) {
		g.ADDQ(operand.U32(uint32(4*n)), codesRegDst)
		g.ADDQ(operand.U8(n), codesRegA)
	})
}

// maxCodes raises rows of bytes. On AVX2 n is a multiple of 32.
func maxCodes(g *gen, v isa) {
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(codesDst), codesRegDst)
	g.MOVQ(g.field(codesA), codesRegA)
	g.MOVQ(g.field(codesRows), reg.R9)
	g.Label("row")
	g.MOVQ(codesRegDst, reg.R10)
	g.MOVQ(codesRegA, reg.R11)
	g.MOVQ(g.field(codesN), codesRegN)
	x := v.vec(0)
	to, from := operand.Mem{Base: reg.R10}, operand.Mem{Base: reg.R11}
	advance := func() {
		g.ADDQ(operand.U8(v.bytes()), reg.R10)
		g.ADDQ(operand.U8(v.bytes()), reg.R11)
	}
	if v == avx512 {
		g.SUBQ(operand.U8(64), codesRegN)
		g.JLT(operand.LabelRef("rest"))
	}
	g.Label("vector")
	if v == avx512 {
		g.VMOVDQU8(from, x)
	} else {
		g.VMOVDQU(from, x)
	}
	g.VPMAXUB(to, x, x)
	if v == avx512 {
		g.VMOVDQU8(x, to)
	} else {
		g.VMOVDQU(x, to)
	}
	advance()
	g.SUBQ(operand.U8(v.bytes()), codesRegN)
	if v == avx512 {
		g.JGE(operand.LabelRef("vector"))
		g.Label("rest")
		g.ADDQ(operand.U8(64), codesRegN)
		g.JZ(operand.LabelRef("next"))
		g.MOVQ(operand.U32(1), reg.R8)
		g.SHLQ(reg.CL, reg.R8)
		g.DECQ(reg.R8)
		g.KMOVQ(reg.R8, reg.K1)
		g.VMOVDQU8_Z(from, reg.K1, x)
		g.VMOVDQU8_Z(to, reg.K1, v.vec(1))
		g.VPMAXUB(v.vec(1), x, x)
		g.VMOVDQU8(x, reg.K1, to)
		g.Label("next")
	} else {
		g.JG(operand.LabelRef("vector"))
	}
	g.ADDQ(g.field(codesLdd), codesRegDst)
	g.ADDQ(g.field(codesLda), codesRegA)
	g.DECQ(reg.R9)
	g.JNZ(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

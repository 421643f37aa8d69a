package main

import (
	"math"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var mathFiles = []file{
	{"avx512", mathFamilies("AVX512", avx512)},
	{"avx2", mathFamilies("AVX2", avx2)},
}

// mathFamilies lists the functions of one number.
func mathFamilies(suffix string, v isa) []family {
	var list []family
	for _, f := range functions {
		list = append(list, family{f.name + suffix, 1, 1, mapping(v, f.emit)})
	}
	return list
}

// mapping returns the emitter of a loop over cols elements. f computes the function of the values w.value(0) in place.
func mapping(v isa, f func(w unit)) func(g *gen, rows, vecs int) {
	return func(g *gen, _, _ int) {
		many, one := lanes{g, v, 4}, lanes{g, v, 1}
		if v == avx2 {
			many.n = 2
		}
		block := many.n * v.bytes()
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offCols), regN)
		g.SUBQ(operand.U8(block/4), regN)
		g.JLT(operand.LabelRef("rest"))
		g.Label("loop")
		for i, x := range many.value(0) {
			g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, v.vec(x))
		}
		f(many)
		for i, x := range many.value(0) {
			g.VMOVUPS(v.vec(x), operand.Mem{Base: regDst, Disp: i * v.bytes()})
		}
		g.ADDQ(operand.U32(uint32(block)), regA)
		g.ADDQ(operand.U32(uint32(block)), regDst)
		g.SUBQ(operand.U8(block/4), regN)
		g.JGE(operand.LabelRef("loop"))
		g.Label("rest")
		g.ADDQ(operand.U8(block/4), regN)
		g.JZ(operand.LabelRef("done"))
		g.Label("single")
		one.firstColumns()
		g.loadMasked(v, operand.Mem{Base: regA}, 0, maskAVX2, v.vec(0))
		f(one)
		g.storeMasked(v, v.vec(0), 0, maskAVX2, operand.Mem{Base: regDst})
		g.ADDQ(operand.U8(v.bytes()), regA)
		g.ADDQ(operand.U8(v.bytes()), regDst)
		g.SUBQ(operand.U8(int(v)), regN)
		g.JG(operand.LabelRef("single"))
		g.Label("done")
		g.VZEROUPPER()
		g.RET()
	}
}

// lanes is the unit of both vector extensions.
type lanes struct {
	*gen
	v isa
	n int
}

const maskAVX2 = 15

func (w lanes) value(i int) values { return consecutive(i*w.n, w.n) }

// spare is a register that belongs to no value.
func (w lanes) spare() int { return w.v.count() - 2 }

// firstColumns makes the mask of the regN next elements, or of all in a vector: K1, or the last register on AVX2.
func (w lanes) firstColumns() {
	w.MOVQ(operand.U32(16), reg.RCX)
	w.CMPQ(regN, reg.RCX)
	w.CMOVQLT(regN, reg.RCX)
	if w.v == avx512 {
		w.MOVL(operand.U32(1), regTmp.As32())
		w.SHLL(reg.CL, regTmp.As32())
		w.DECL(regTmp.As32())
		w.KMOVW(regTmp.As32(), masks[0])
		return
	}
	w.LEAQ(w.columns(), regTmp)
	w.SHLQ(operand.U8(2), reg.RCX)
	w.SUBQ(reg.RCX, regTmp)
	w.VMOVDQU(operand.Mem{Base: regTmp, Disp: 64}, w.v.vec(maskAVX2))
}

func (w lanes) fill(dst values, c float32) {
	for _, x := range dst {
		w.VBROADCASTSS(w.number(w.v, math.Float32bits(c)), w.v.vec(x))
	}
}

func (w lanes) parameter(off int) values {
	w.VBROADCASTSS(w.field(off), w.v.vec(w.spare()))
	return slices.Repeat(values{w.spare()}, w.n)
}

// with emits an operation that takes a constant first. On AVX-512 it is broadcast from memory, on AVX2 it lies there in every lane.
func (w lanes) with(plain, broadcast func(ops ...operand.Op), c uint32, x, dst int) {
	ops := []operand.Op{w.number(w.v, c), w.v.vec(x), w.v.vec(dst)}
	if w.v == avx512 {
		broadcast(ops...)
		return
	}
	plain(ops...)
}

func (w lanes) scaled(dst, x values, c float32) {
	for i := range dst {
		w.with(w.VMULPS, w.VMULPS_BCST, math.Float32bits(c), x[i], dst[i])
	}
}

func (w lanes) raised(dst, x values, c float32) {
	for i := range dst {
		w.with(w.VADDPS, w.VADDPS_BCST, math.Float32bits(c), x[i], dst[i])
	}
}

func (w lanes) multiplyAdd(y, x values, c float32) {
	for i := range y {
		w.with(w.VFMADD213PS, w.VFMADD213PS_BCST, math.Float32bits(c), x[i], y[i])
	}
}

func (w lanes) addProduct(y, x values, c float32) {
	for i := range y {
		w.with(w.VFMADD231PS, w.VFMADD231PS_BCST, math.Float32bits(c), x[i], y[i])
	}
}

func (w lanes) horner(y, x values, terms []float32) {
	w.fill(y, terms[0])
	for _, c := range terms[1:] {
		w.multiplyAdd(y, x, c)
	}
}

// three emits an operation on three registers for every vector: a is its first operand, dst its last.
func (w lanes) three(f func(ops ...operand.Op), a, b, dst values) {
	for i := range dst {
		f(w.v.vec(a[i]), w.v.vec(b[i]), w.v.vec(dst[i]))
	}
}

func (w lanes) sum(dst, x, y values)        { w.three(w.VADDPS, y, x, dst) }
func (w lanes) difference(dst, x, y values) { w.three(w.VSUBPS, y, x, dst) }
func (w lanes) product(dst, x, y values)    { w.three(w.VMULPS, y, x, dst) }
func (w lanes) quotient(dst, x, y values)   { w.three(w.VDIVPS, y, x, dst) }
func (w lanes) fused(y, x, z values)        { w.three(w.VFMADD213PS, z, x, y) }
func (w lanes) fusedMinus(y, x, z values)   { w.three(w.VFMSUB213PS, z, x, y) }
func (w lanes) fusedFrom(y, x, z values)    { w.three(w.VFNMADD213PS, z, x, y) }

func (w lanes) root(x values) {
	for _, r := range x {
		w.VSQRTPS(w.v.vec(r), w.v.vec(r))
	}
}

func (w lanes) nearest(x values) {
	for _, r := range x {
		if w.v == avx512 {
			w.VRNDSCALEPS(operand.U8(0), w.v.vec(r), w.v.vec(r))
		} else {
			w.VROUNDPS(operand.U8(0), w.v.vec(r), w.v.vec(r))
		}
	}
}

func (w lanes) move(dst, x values) {
	for i := range dst {
		w.VMOVUPS(w.v.vec(x[i]), w.v.vec(dst[i]))
	}
}

// atLeast and atMost let NaN and zeros of either sign pass, since x is the second source.
func (w lanes) atLeast(x values, c float32) { w.limited(w.VMAXPS, x, c) }
func (w lanes) atMost(x values, c float32)  { w.limited(w.VMINPS, x, c) }

func (w lanes) limited(f func(ops ...operand.Op), x values, c float32) {
	w.fill(values{w.spare()}, c)
	for _, r := range x {
		f(w.v.vec(r), w.v.vec(w.spare()), w.v.vec(r))
	}
}

const signBit = 1 << 31

func (w lanes) magnitude(dst, x values) {
	for i := range dst {
		w.with(w.VANDPS, w.VANDPS_BCST, signBit-1, x[i], dst[i])
	}
}

func (w lanes) negative(dst, x values) {
	for i := range dst {
		w.with(w.VORPS, w.VORPS_BCST, signBit, x[i], dst[i])
	}
}

func (w lanes) copySign(x, y values) {
	for i := range x {
		w.with(w.VANDPS, w.VANDPS_BCST, signBit, y[i], y[i])
		w.VORPS(w.v.vec(y[i]), w.v.vec(x[i]), w.v.vec(x[i]))
	}
}

func (w lanes) selectNegative(dst, y, x values) {
	for i := range dst {
		x, y, to := w.v.vec(x[i]), w.v.vec(y[i]), w.v.vec(dst[i])
		if w.v == avx512 {
			w.VPMOVD2M(x, reg.K2)
			w.VMOVUPS(y, reg.K2, to)
			continue
		}
		w.VBLENDVPS(x, y, to, to)
	}
}

const greater = 30

func (w lanes) selectGreater(dst, y, x values, c float32) {
	w.fill(values{w.spare()}, c)
	for i := range dst {
		x, y, to := w.v.vec(x[i]), w.v.vec(y[i]), w.v.vec(dst[i])
		if w.v == avx512 {
			w.VCMPPS(operand.U8(greater), w.v.vec(w.spare()), x, reg.K2)
			w.VMOVUPS(y, reg.K2, to)
			continue
		}
		w.VCMPPS(operand.U8(greater), w.v.vec(w.spare()), x, x)
		w.VBLENDVPS(x, y, to, to)
	}
}

// scale is two products where there is no SCALEF, the first of which is exact.
func (w lanes) scale(x, n, s values) {
	for i := range x {
		x, n, s := w.v.vec(x[i]), w.v.vec(n[i]), w.v.vec(s[i])
		if w.v == avx512 {
			w.VSCALEFPS(n, x, x)
			continue
		}
		w.VCVTPS2DQ(n, n)
		w.VPSRAD(operand.U8(1), n, s)
		w.VPSUBD(s, n, n)
		for _, half := range []reg.VecPhysical{s, n} {
			w.exponent(half)
			w.VMULPS(half, x, x)
		}
	}
}

// exponent makes 2^n of an integer n, on AVX2.
func (w lanes) exponent(n reg.VecPhysical) {
	w.VPADDD(w.number(w.v, 127), n, n)
	w.VPSLLD(operand.U8(23), n, n)
}

func (w lanes) power(dst, n values) {
	if w.v == avx512 {
		w.fill(values{w.spare()}, 1)
	}
	for i := range dst {
		n, to := w.v.vec(n[i]), w.v.vec(dst[i])
		if w.v == avx512 {
			w.VSCALEFPS(n, w.v.vec(w.spare()), to)
			continue
		}
		w.VCVTPS2DQ(n, to)
		w.exponent(to)
	}
}

// number returns the address of a constant with the given bits, adding it to the table of this file.
func (g *gen) number(v isa, bits uint32) operand.Mem {
	at := -1
	for i, b := range g.numbers {
		if b == bits {
			at = i
		}
	}
	if at < 0 {
		at = len(g.numbers)
		g.numbers = append(g.numbers, bits)
	}
	return operand.NewDataAddr(operand.NewStaticSymbol("numbers"), at*numberBytes)
}

// numberBytes is the distance of constants: a vector of AVX2.
const numberBytes = 32

// numberTable declares the constants that were asked for.
func (g *gen) numberTable() {
	if len(g.numbers) == 0 {
		return
	}
	g.table("numbers")
	for i, b := range g.numbers {
		for k := 0; k < numberBytes; k += 4 {
			g.AddDatum(i*numberBytes+k, operand.U32(b))
		}
	}
}

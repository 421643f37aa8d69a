package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var mathFiles = []file{
	{"avx512", mathFamilies("AVX512", avx512)},
	{"avx2", mathFamilies("AVX2", avx2)},
}

// mathFamilies lists the functions of one number. The constants and the order of operations are those of ref/math.go.
func mathFamilies(suffix string, v isa) []family {
	var list []family
	for _, f := range []struct {
		name string
		f    func(w lanes)
	}{
		{"exp", exp}, {"sigmoid", sigmoid}, {"tanh", tanh}, {"erf", erf}, {"swish", swish}, {"gelu", gelu}, {"geluTanh", geluTanh},
		{"hardSigmoid", hardSigmoid}, {"hardSwish", hardSwish}, {"sqrt", sqrt},
		{"addScalar", withScalar(func(w lanes, x, y reg.VecPhysical) { w.VADDPS(y, x, x) })},
		{"mulScalar", withScalar(func(w lanes, x, y reg.VecPhysical) { w.VMULPS(y, x, x) })},
		{"divScalar", withScalar(func(w lanes, x, y reg.VecPhysical) { w.VDIVPS(y, x, x) })},
		{"scalarSub", withScalar(func(w lanes, x, y reg.VecPhysical) { w.VSUBPS(x, y, x) })},
		{"scalarDiv", withScalar(func(w lanes, x, y reg.VecPhysical) { w.VDIVPS(x, y, x) })},
	} {
		list = append(list, family{f.name + suffix, 1, 1, mapping(v, f.f)})
	}
	return list
}

// mapping returns the emitter of a loop over cols elements. f computes the function of the values w.value(0) in place.
func mapping(v isa, f func(w lanes)) func(g *gen, rows, vecs int) {
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
			g.VMOVUPS(operand.Mem{Base: regA, Disp: i * v.bytes()}, x)
		}
		f(many)
		for i, x := range many.value(0) {
			g.VMOVUPS(x, operand.Mem{Base: regDst, Disp: i * v.bytes()})
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
		g.loadMasked(v, operand.Mem{Base: regA}, 0, maskAVX2, one.value(0)[0])
		f(one)
		g.storeMasked(v, one.value(0)[0], 0, maskAVX2, operand.Mem{Base: regDst})
		g.ADDQ(operand.U8(v.bytes()), regA)
		g.ADDQ(operand.U8(v.bytes()), regDst)
		g.SUBQ(operand.U8(int(v)), regN)
		g.JG(operand.LabelRef("single"))
		g.Label("done")
		g.VZEROUPPER()
		g.RET()
	}
}

// lanes emits the same operations on n vectors side by side, so that none waits for the result of another.
type lanes struct {
	*gen
	v isa
	n int
}

const maskAVX2 = 15

// value returns the registers of the i-th value.
func (w lanes) value(i int) []reg.VecPhysical {
	var list []reg.VecPhysical
	for k := range w.n {
		list = append(list, w.v.vec(i*w.n+k))
	}
	return list
}

// spare returns a register that belongs to no value.
func (w lanes) spare() reg.VecPhysical { return w.v.vec(w.v.count() - 2) }

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

// The operations below take a constant as their last operand. On AVX-512 it is broadcast from memory, on AVX2 it lies there
// in every lane.

func (w lanes) fill(dst []reg.VecPhysical, c float32) {
	for _, x := range dst {
		w.VBROADCASTSS(w.number(w.v, math.Float32bits(c)), x)
	}
}

func (w lanes) with(plain, broadcast func(ops ...operand.Op), c uint32, ops ...operand.Op) {
	ops = append([]operand.Op{w.number(w.v, c)}, ops...)
	if w.v == avx512 {
		broadcast(ops...)
		return
	}
	plain(ops...)
}

func (w lanes) mul(dst, x []reg.VecPhysical, c float32) {
	for i := range dst {
		w.with(w.VMULPS, w.VMULPS_BCST, math.Float32bits(c), x[i], dst[i])
	}
}

func (w lanes) add(dst, x []reg.VecPhysical, c float32) {
	for i := range dst {
		w.with(w.VADDPS, w.VADDPS_BCST, math.Float32bits(c), x[i], dst[i])
	}
}

// multiplyAdd is y = y*x + c.
func (w lanes) multiplyAdd(y, x []reg.VecPhysical, c float32) {
	for i := range y {
		w.with(w.VFMADD213PS, w.VFMADD213PS_BCST, math.Float32bits(c), x[i], y[i])
	}
}

// addProduct is y = y + x*c; subProduct is y - x*c.
func (w lanes) addProduct(y, x []reg.VecPhysical, c float32) {
	for i := range y {
		w.with(w.VFMADD231PS, w.VFMADD231PS_BCST, math.Float32bits(c), x[i], y[i])
	}
}

func (w lanes) subProduct(y, x []reg.VecPhysical, c float32) {
	for i := range y {
		w.with(w.VFNMADD231PS, w.VFNMADD231PS_BCST, math.Float32bits(c), x[i], y[i])
	}
}

// horner is the polynomial in x with the given terms, highest first.
func (w lanes) horner(y, x []reg.VecPhysical, terms []float32) {
	w.fill(y, terms[0])
	for _, c := range terms[1:] {
		w.multiplyAdd(y, x, c)
	}
}

// atLeast and atMost bound values; NaN passes, being the second source.
func (w lanes) atLeast(x []reg.VecPhysical, c float32) {
	w.fill([]reg.VecPhysical{w.spare()}, c)
	for _, r := range x {
		w.VMAXPS(r, w.spare(), r)
	}
}

func (w lanes) atMost(x []reg.VecPhysical, c float32) {
	w.fill([]reg.VecPhysical{w.spare()}, c)
	for _, r := range x {
		w.VMINPS(r, w.spare(), r)
	}
}

const signBit = 1 << 31

// magnitude is |x|, negative -|x|.
func (w lanes) magnitude(dst, x []reg.VecPhysical) {
	for i := range dst {
		w.with(w.VANDPS, w.VANDPS_BCST, signBit-1, x[i], dst[i])
	}
}

func (w lanes) negative(dst, x []reg.VecPhysical) {
	for i := range dst {
		w.with(w.VORPS, w.VORPS_BCST, signBit, x[i], dst[i])
	}
}

// copySign gives x, which has no sign, that of y, which is lost.
func (w lanes) copySign(x, y []reg.VecPhysical) {
	for i := range x {
		w.with(w.VANDPS, w.VANDPS_BCST, signBit, y[i], y[i])
		w.VORPS(y[i], x[i], x[i])
	}
}

// selectNegative is y where the sign of x is set, else dst.
func (w lanes) selectNegative(dst, y, x []reg.VecPhysical) {
	for i := range dst {
		if w.v == avx512 {
			w.VPMOVD2M(x[i], reg.K2)
			w.VMOVUPS(y[i], reg.K2, dst[i])
			continue
		}
		w.VBLENDVPS(x[i], y[i], dst[i], dst[i])
	}
}

const greater = 30

// selectGreater is y where x > c, else dst. x is lost.
func (w lanes) selectGreater(dst, y, x []reg.VecPhysical, c float32) {
	w.fill([]reg.VecPhysical{w.spare()}, c)
	for i := range dst {
		if w.v == avx512 {
			w.VCMPPS(operand.U8(greater), w.spare(), x[i], reg.K2)
			w.VMOVUPS(y[i], reg.K2, dst[i])
			continue
		}
		w.VCMPPS(operand.U8(greater), w.spare(), x[i], x[i])
		w.VBLENDVPS(x[i], y[i], dst[i], dst[i])
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

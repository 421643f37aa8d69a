package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of ref/math.go; kerneltest holds the results equal to the bit.
const (
	expMin   = -104
	expMax   = 89
	log2e    = 0x1.715476p+0
	ln2Hi    = 0x1.62e430p-1
	ln2Lo    = -0x1.05c610p-29
	rounder  = 0x1.8p23
	tanhMax  = 10
	erfMax   = 3.93
	erfSplit = 0.875
	rootHalf = 0x1.6a09e6p-1

	geluTanhLinear = 0x1.988454p+0
	geluTanhCubic  = 0x1.2444f2p-4
)

var (
	expTerms  = []float32{0x1.6b97a6p-10, 0x1.122538p-7, 0x1.5556f6p-5, 0x1.5554b4p-3, 0x1.fffffep-2}
	erfTerms  = []float32{-0x1.41323cp-11, 0x1.48c424p-8, -0x1.b6c436p-6, 0x1.ce1d88p-4, -0x1.8126f2p-2, 0x1.06eba6p-3}
	erfcTerms = []float32{0x1.c39598p-13, -0x1.a6d68ep-9, 0x1.779b18p-6, -0x1.af603ap-4, -0x1.45777cp-1, -0x1.0738dcp-3}
)

// expm1Reduced makes n and y = exp(x - n*ln(2)) - 1; x and s are lost.
func (w lanes) expm1Reduced(n, y, s, x []reg.VecPhysical) {
	w.fill(n, rounder)
	w.addProduct(n, x, log2e)
	w.add(n, n, -rounder)
	w.subProduct(x, n, ln2Hi)
	w.subProduct(x, n, ln2Lo)
	w.horner(y, x, expTerms)
	for i := range x {
		w.VMULPS(x[i], x[i], s[i])
		w.VFMADD213PS(x[i], s[i], y[i])
	}
}

// scale is x * 2^n rounded once, for n from -150 to 128; n and s are lost. Without SCALEF it is two products, the first of
// which is exact.
func (w lanes) scale(x, n, s []reg.VecPhysical) {
	for i := range x {
		if w.v == avx512 {
			w.VSCALEFPS(n[i], x[i], x[i])
			continue
		}
		w.VCVTPS2DQ(n[i], n[i])
		w.VPSRAD(operand.U8(1), n[i], s[i])
		w.VPSUBD(s[i], n[i], n[i])
		for _, half := range []reg.VecPhysical{s[i], n[i]} {
			w.exponent(half)
			w.VMULPS(half, x[i], x[i])
		}
	}
}

// exponent makes 2^n of an integer n, on AVX2.
func (w lanes) exponent(n reg.VecPhysical) {
	w.VPADDD(w.number(w.v, 127), n, n)
	w.VPSLLD(operand.U8(23), n, n)
}

// power is 2^n for n from -126 to 127. dst may be n.
func (w lanes) power(dst, n []reg.VecPhysical) {
	if w.v == avx512 {
		w.fill([]reg.VecPhysical{w.spare()}, 1)
	}
	for i := range dst {
		if w.v == avx512 {
			w.VSCALEFPS(n[i], w.spare(), dst[i])
			continue
		}
		w.VCVTPS2DQ(n[i], dst[i])
		w.exponent(dst[i])
	}
}

// expInto makes y = exp(x) of x within expMin and expMax; x, n and s are lost.
func (w lanes) expInto(y, x, n, s []reg.VecPhysical) {
	w.expm1Reduced(n, y, s, x)
	w.add(y, y, 1)
	w.scale(y, n, s)
}

func exp(w lanes) {
	x := w.value(1)
	for i, v := range w.value(0) {
		w.VMOVUPS(v, x[i])
	}
	w.atLeast(x, expMin)
	w.atMost(x, expMax)
	w.expInto(w.value(0), x, w.value(2), w.value(3))
}

func sigmoid(w lanes) {
	x, e, d, numerator := w.value(0), w.value(3), w.value(4), w.value(2)
	w.negative(w.value(1), x)
	w.atLeast(w.value(1), expMin)
	w.expInto(e, w.value(1), w.value(2), d)
	w.add(d, e, 1)
	w.fill(numerator, 1)
	w.selectNegative(numerator, e, x)
	for i := range x {
		w.VDIVPS(d[i], numerator[i], x[i])
	}
}

func tanh(w lanes) {
	x, t, n, y, m := w.value(0), w.value(1), w.value(2), w.value(3), w.value(4)
	w.magnitude(t, x)
	w.atMost(t, tanhMax)
	w.mul(t, t, -2)
	w.expm1Reduced(n, y, m, t)
	w.power(m, n)
	w.add(t, m, -1)
	for i := range x {
		w.VFMADD213PS(t[i], y[i], m[i])
	}
	w.add(t, m, 2)
	w.magnitude(m, m)
	for i := range x {
		w.VDIVPS(t[i], m[i], m[i])
	}
	w.copySign(m, x)
	w.move(x, m)
}

func erf(w lanes) {
	x, t, p, y, n, s := w.value(0), w.value(1), w.value(2), w.value(3), w.value(4), w.value(5)
	w.magnitude(t, x)
	w.atMost(t, erfMax)
	w.horner(p, t, erfcTerms)
	for i := range x {
		w.VFMSUB213PS(t[i], t[i], p[i])
	}
	w.expm1Reduced(n, y, s, p)
	w.add(y, y, 1)
	w.power(n, n)
	w.fill(s, 1)
	for i := range x {
		w.VFNMADD213PS(s[i], n[i], y[i]) // 1 - y*2^n
	}
	near := n
	for i := range x {
		w.VMULPS(x[i], x[i], s[i])
	}
	w.horner(near, s, erfTerms)
	for i := range x {
		w.VFMADD213PS(x[i], x[i], near[i])
	}
	w.copySign(y, x)
	w.selectGreater(near, y, t, erfSplit)
	w.move(x, near)
}

func swish(w lanes) {
	x, keep := w.value(0), w.value(5)
	w.move(keep, x)
	w.VBROADCASTSS(w.field(offLo), w.spare())
	for i := range x {
		w.VMULPS(w.spare(), x[i], x[i])
	}
	sigmoid(w)
	w.product(x, keep)
}

func gelu(w lanes) {
	x, keep := w.value(0), w.value(6)
	w.move(keep, x)
	w.mul(x, x, rootHalf)
	erf(w)
	w.add(x, x, 1)
	w.mul(keep, keep, 0.5)
	w.product(x, keep)
}

func geluTanh(w lanes) {
	x, keep, u := w.value(0), w.value(5), w.value(1)
	w.move(keep, x)
	for i := range x {
		w.VMULPS(x[i], x[i], x[i])
	}
	w.fill(u, geluTanhCubic)
	w.multiplyAdd(u, x, geluTanhLinear)
	w.move(x, keep)
	w.product(x, u)
	sigmoid(w)
	w.product(x, keep)
}

// hardSigmoid takes alpha and beta from the limits of the tile.
func hardSigmoid(w lanes) {
	x := w.value(0)
	w.VBROADCASTSS(w.field(offLo), w.spare())
	for _, r := range x {
		w.VMULPS(w.spare(), r, r)
	}
	w.VBROADCASTSS(w.field(offHi), w.spare())
	for _, r := range x {
		w.VADDPS(w.spare(), r, r)
	}
	w.atLeast(x, 0)
	w.atMost(x, 1)
}

func hardSwish(w lanes) {
	x, keep := w.value(0), w.value(1)
	w.move(keep, x)
	hardSigmoid(w)
	w.product(x, keep)
}

func sqrt(w lanes) {
	for _, x := range w.value(0) {
		w.VSQRTPS(x, x)
	}
}

// withScalar makes a function of x and the tile's lo.
func withScalar(f func(w lanes, x, y reg.VecPhysical)) func(w lanes) {
	return func(w lanes) {
		w.VBROADCASTSS(w.field(offLo), w.spare())
		for _, x := range w.value(0) {
			f(w, x, w.spare())
		}
	}
}

// product is x = x*y.
func (w lanes) product(x, y []reg.VecPhysical) {
	for i := range x {
		w.VMULPS(y[i], x[i], x[i])
	}
}

// move is dst = x.
func (w lanes) move(dst, x []reg.VecPhysical) {
	for i := range dst {
		w.VMOVUPS(x[i], dst[i])
	}
}

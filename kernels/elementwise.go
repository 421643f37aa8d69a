package kernels

import (
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// The elementwise operations work on len(dst) elements; dst may be one of the sources. Every result is the IEEE 754 float32
// result of the operation, so rows cannot differ in anything but speed. Methods of Table use its rows; the functions of the
// same names are plain Go.

// Add is dst[i] = a[i] + b[i].
func (t *Table) Add(dst, a, b []float32) { t.elementwise(OpAdd, dst, a, b[:len(dst)], 0, 0) }

// Sub is dst[i] = a[i] - b[i].
func (t *Table) Sub(dst, a, b []float32) { t.elementwise(OpSub, dst, a, b[:len(dst)], 0, 0) }

// Mul is dst[i] = a[i] * b[i].
func (t *Table) Mul(dst, a, b []float32) { t.elementwise(OpMul, dst, a, b[:len(dst)], 0, 0) }

// Div is dst[i] = a[i] / b[i].
func (t *Table) Div(dst, a, b []float32) { t.elementwise(OpDiv, dst, a, b[:len(dst)], 0, 0) }

// Limits is dst[i] = a[i], lo if that is less than lo, then hi if that is above hi: Relu with (0, +Inf), Clip. NaN passes,
// and so does -0 where lo is 0.
func (t *Table) Limits(dst, a []float32, lo, hi float32) { t.elementwise(OpLimit, dst, a, nil, lo, hi) }

// FakeQuantize is g.FakeSlice(dst, src), bit for bit.
func (t *Table) FakeQuantize(dst, src []float32, g qmath.Grid) {
	const short = 8 // below it, as where each column has a scale of its own, a row costs more than it gains
	if len(src) < short || !g.Narrow() {
		g.FakeSlice(dst, src)
		return
	}
	scale := [1]float32{g.Scale}
	t.elementwise(OpFake, dst[:len(src)], src, scale[:], float32(g.QMin-g.ZeroPoint), float32(g.QMax-g.ZeroPoint))
}

// AddRow is dst[i*n+j] = a[i*n+j] + b[j], n = len(b): one value per channel of a channels-last tensor. len(dst) must be a
// multiple of n.
func (t *Table) AddRow(dst, a, b []float32) { t.eachRow(OpAdd, dst, a, b) }

// MulRow is dst[i*n+j] = a[i*n+j] * b[j], n = len(b). len(dst) must be a multiple of n.
func (t *Table) MulRow(dst, a, b []float32) { t.eachRow(OpMul, dst, a, b) }

func (t *Table) eachRow(op Op, dst, a, b []float32) {
	n := len(b)
	if n == 0 {
		return
	}
	w := t.borrow()
	w.tile = tile{panel: b, rows: 1, cols: n}
	for i := 0; i < len(dst); i += n {
		w.tile.dst, w.tile.a = dst[i:i+n], a[i:i+n]
		t.rows[op].tile(&w.tile)
	}
	t.giveBack(w)
}

func (t *Table) elementwise(op Op, dst, a, b []float32, lo, hi float32) {
	if len(dst) == 0 {
		return
	}
	w := t.borrow()
	w.tile = tile{a: a[:len(dst)], panel: b, dst: dst, rows: 1, cols: len(dst), lo: lo, hi: hi}
	t.rows[op].tile(&w.tile)
	t.giveBack(w)
}

// Add is dst[i] = a[i] + b[i].
func Add(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Sub is dst[i] = a[i] - b[i].
func Sub(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// Mul is dst[i] = a[i] * b[i].
func Mul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// Div is dst[i] = a[i] / b[i].
func Div(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// Limits is as Table.Limits.
func Limits(dst, a []float32, lo, hi float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = ref.Limit(a[i], lo, hi)
	}
}

// AddScalar is dst[i] = a[i] + b.
func AddScalar(dst, a []float32, b float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b
	}
}

// MulScalar is dst[i] = a[i] * b.
func MulScalar(dst, a []float32, b float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b
	}
}

// MulAddRow is dst[i*n+j] = float32(a[i*n+j]*scale[j]) + bias[j], n = len(scale): a batch normalization with its statistics
// folded. len(dst) must be a multiple of n.
func MulAddRow(dst, a, scale, bias []float32) {
	n := len(scale)
	bias = bias[:n]
	for i := 0; i < len(dst); i += n {
		d, x := dst[i:i+n], a[i:][:n]
		for j, v := range x {
			d[j] = float32(v*scale[j]) + bias[j]
		}
	}
}

// The plain Go rows.
func goAdd(t *tile)   { Add(t.dst, t.a, t.panel) }
func goSub(t *tile)   { Sub(t.dst, t.a, t.panel) }
func goMul(t *tile)   { Mul(t.dst, t.a, t.panel) }
func goDiv(t *tile)   { Div(t.dst, t.a, t.panel) }
func goLimit(t *tile) { Limits(t.dst, t.a, t.lo, t.hi) }

// goFake rebuilds the grid around zero point 0, which has the same quotients, limits and products.
func goFake(t *tile) {
	qmath.Grid{Scale: t.panel[0], QMin: int32(t.lo), QMax: int32(t.hi)}.FakeSlice(t.dst, t.a)
}

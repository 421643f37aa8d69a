package kernels

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The generator in _asm knows these numbers as constants.
func TestIntegerTileLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("assembly exists for 64-bit processors only")
	}
	var x tile8
	var o outTile
	var c codes8
	for _, f := range []struct {
		name         string
		offset, want uintptr
	}{
		{"a", unsafe.Offsetof(x.a), 0}, {"panel", unsafe.Offsetof(x.panel), 24}, {"dst", unsafe.Offsetof(x.dst), 48},
		{"init", unsafe.Offsetof(x.init), 72}, {"segs", unsafe.Offsetof(x.segs), 96}, {"lda", unsafe.Offsetof(x.lda), 120},
		{"ldd", unsafe.Offsetof(x.ldd), 128}, {"cols", unsafe.Offsetof(x.cols), 144}, {"ldi", unsafe.Offsetof(x.ldi), 152},
		{"acc", unsafe.Offsetof(o.acc), 0}, {"dst", unsafe.Offsetof(o.dst), 24}, {"f32", unsafe.Offsetof(o.f32), 48},
		{"residual", unsafe.Offsetof(o.residual), 72}, {"lacc", unsafe.Offsetof(o.lacc), 96}, {"ldd", unsafe.Offsetof(o.ldd), 104},
		{"ldr", unsafe.Offsetof(o.ldr), 112}, {"rows", unsafe.Offsetof(o.rows), 120}, {"cols", unsafe.Offsetof(o.cols), 128},
		{"scale", unsafe.Offsetof(o.scale), 136}, {"Bias", unsafe.Offsetof(o.scale.Bias), 24}, {"Divisor", unsafe.Offsetof(o.scale.Divisor), 48},
		{"Lo", unsafe.Offsetof(o.scale.Lo), 52}, {"Hi", unsafe.Offsetof(o.scale.Hi), 56},
		{"ResidualScale", unsafe.Offsetof(o.scale.ResidualScale), 60}, {"QMin", unsafe.Offsetof(o.scale.QMin), 66},
		{"most", unsafe.Offsetof(o.most), 212}, {"residualZero", unsafe.Offsetof(o.residualZero), 216}, {"zero", unsafe.Offsetof(o.zero), 220},
		{"Mul", unsafe.Offsetof(o.shift), 232},
		{"Exp", unsafe.Offsetof(o.shift.Exp), 24}, {"steps", unsafe.Offsetof(o.steps), 288}, {"second", unsafe.Offsetof(o.steps.second), 16},
		{"left", unsafe.Offsetof(o.steps.left), 20}, {"halfMask", unsafe.Offsetof(o.steps.halfMask), 24},
		{"evenMask", unsafe.Offsetof(o.steps.evenMask), 48},
		{"least", unsafe.Offsetof(o.steps.least), 56}, {"zero64", unsafe.Offsetof(o.steps.zero), 72},
		{"dst", unsafe.Offsetof(c.dst), 0}, {"a", unsafe.Offsetof(c.a), 24}, {"b", unsafe.Offsetof(c.b), 48},
		{"real", unsafe.Offsetof(c.real), 72},
		{"n", unsafe.Offsetof(c.n), 96}, {"rows", unsafe.Offsetof(c.rows), 104}, {"lda", unsafe.Offsetof(c.lda), 112},
		{"ldd", unsafe.Offsetof(c.ldd), 120}, {"fa", unsafe.Offsetof(c.fa), 128}, {"fb", unsafe.Offsetof(c.fb), 132},
		{"k", unsafe.Offsetof(c.k), 136}, {"factor", unsafe.Offsetof(c.factor), 140}, {"divisor", unsafe.Offsetof(c.divisor), 144},
		{"za", unsafe.Offsetof(c.za), 148}, {"zb", unsafe.Offsetof(c.zb), 152}, {"lo", unsafe.Offsetof(c.lo), 156},
		{"hi", unsafe.Offsetof(c.hi), 160}, {"zero", unsafe.Offsetof(c.zero), 164},
		{"plain", unsafe.Offsetof(o.plain), 224}, {"QMax", unsafe.Offsetof(o.scale.QMax), 67},
	} {
		assert.Equal(t, f.want, f.offset, f.name)
	}
}

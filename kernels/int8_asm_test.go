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
	for _, f := range []struct {
		name         string
		offset, want uintptr
	}{
		{"a", unsafe.Offsetof(x.a), 0}, {"panel", unsafe.Offsetof(x.panel), 24}, {"dst", unsafe.Offsetof(x.dst), 48},
		{"init", unsafe.Offsetof(x.init), 72}, {"segs", unsafe.Offsetof(x.segs), 96}, {"lda", unsafe.Offsetof(x.lda), 120},
		{"ldd", unsafe.Offsetof(x.ldd), 128}, {"cols", unsafe.Offsetof(x.cols), 144}, {"ldi", unsafe.Offsetof(x.ldi), 152},
	} {
		assert.Equal(t, f.want, f.offset, f.name)
	}
}

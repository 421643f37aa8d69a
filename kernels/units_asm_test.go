package kernels

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The generator in _asm knows these numbers as constants.
func TestUnitsLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("assembly exists for 64-bit processors only")
	}
	var u unitsTile
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32, 40, 48, 52, 56}, []uintptr{unsafe.Offsetof(u.x), unsafe.Offsetof(u.sums),
		unsafe.Offsetof(u.rows),
		unsafe.Offsetof(u.cols), unsafe.Offsetof(u.stride), unsafe.Offsetof(u.scale), unsafe.Offsetof(u.lo), unsafe.Offsetof(u.hi),
		unsafe.Offsetof(u.odd)})
}

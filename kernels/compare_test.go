package kernels

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"qwb/kernels/ref"
)

// The generator in _asm knows these numbers as constants.
func TestSumsLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("assembly exists for 64-bit processors only")
	}
	var s sums
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32}, []uintptr{unsafe.Offsetof(s.x), unsafe.Offsetof(s.y), unsafe.Offsetof(s.z),
		unsafe.Offsetof(s.n), unsafe.Offsetof(s.lanes)})
	var c columnsTile
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32}, []uintptr{unsafe.Offsetof(c.x), unsafe.Offsetof(c.y), unsafe.Offsetof(c.sums),
		unsafe.Offsetof(c.rows), unsafe.Offsetof(c.stride)})
	var w wideTile
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32, 8, 16}, []uintptr{unsafe.Offsetof(w.a), unsafe.Offsetof(w.b), unsafe.Offsetof(w.dst),
		unsafe.Offsetof(w.ldd), unsafe.Offsetof(w.k), wideRows, wideCols})
	var m moveTile
	assert.Equal(t, []uintptr{0, 8, 16, 24, 32, 40, 48}, []uintptr{unsafe.Offsetof(m.dst), unsafe.Offsetof(m.x), unsafe.Offsetof(m.y),
		unsafe.Offsetof(m.mask), unsafe.Offsetof(m.n), unsafe.Offsetof(m.ldx), unsafe.Offsetof(m.ldd)})
	assert.Zero(t, ref.CompareBlock%rowLanes, "blocks begin with lane 0")
}

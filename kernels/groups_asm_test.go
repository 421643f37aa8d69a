package kernels

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The generator in _asm knows these numbers as constants.
func TestGroupsLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("assembly exists for 64-bit processors only")
	}
	var x groupTile
	assert.Equal(t, []uintptr{0, 24, 48, 72, 96, 104, 112, 120}, []uintptr{unsafe.Offsetof(x.w), unsafe.Offsetof(x.x), unsafe.Offsetof(x.dst),
		unsafe.Offsetof(x.sums), unsafe.Offsetof(x.ldd), unsafe.Offsetof(x.groups), unsafe.Offsetof(x.words), unsafe.Offsetof(x.panels)})
	var q groupQuantizer
	assert.Equal(t, []uintptr{0, 24, 32, 40, 64, 72, 80}, []uintptr{unsafe.Offsetof(q.x), unsafe.Offsetof(q.groups), unsafe.Offsetof(q.size),
		unsafe.Offsetof(q.to), unsafe.Offsetof(q.rows), unsafe.Offsetof(q.codes), unsafe.Offsetof(q.step)})
}

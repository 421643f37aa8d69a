package kernels

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The generator in _asm knows these numbers as constants.
func TestGramLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("assembly exists for 64-bit processors only")
	}
	var g gramTile
	assert.Equal(t, []uintptr{0, 8, 16, 24}, []uintptr{unsafe.Offsetof(g.a), unsafe.Offsetof(g.b), unsafe.Offsetof(g.dst),
		unsafe.Offsetof(g.pairs)})
	assert.Equal(t, 32, GramLanes)
}

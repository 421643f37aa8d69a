package checkpoint

import (
	"encoding/binary"
	"unsafe"
)

// Float32 returns all elements: of type F32 a view of the file where the machine's numbers are those of the file and aligned
// in it, else converted. It must not be written to.
func (t *Tensor) Float32() []float32 {
	n := t.Len()
	p := unsafe.Pointer(unsafe.SliceData(t.data))
	if t.Type != F32 || n == 0 || uintptr(p)%unsafe.Alignof(float32(0)) != 0 || binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return t.All()
	}
	return unsafe.Slice((*float32)(p), n)
}

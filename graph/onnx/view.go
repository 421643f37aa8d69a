package onnx

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"unsafe"
)

// unalignedViews lists the little-endian architectures whose ordinary loads take any address, so that a slice of numbers
// may lie over file bytes as they come (raw_data starts at arbitrary offsets). Elsewhere misaligned data is copied.
const unalignedViews = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386" ||
	runtime.GOARCH == "wasm"

// number is an element whose bytes in a file are its bytes in memory, byte order apart.
type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | complex64 | complex128
}

// view interprets little-endian bytes as numbers: without copying where architecture and address allow it. A tail shorter
// than one element is left out.
func view[T number](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(b) / size
	if n == 0 {
		return []T{}
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if littleEndian() && (unalignedViews || uintptr(p)%unsafe.Alignof(zero) == 0) {
		return unsafe.Slice((*T)(p), n)
	}
	out := make([]T, n)
	// Reading n elements of fixed size from n*size bytes cannot fail.
	_ = binary.Read(bytes.NewReader(b[:n*size]), binary.LittleEndian, out)
	return out
}

// bytesOf is the inverse of view.
func bytesOf[T number](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	if littleEndian() {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
	}
	out, _ := binary.Append(nil, binary.LittleEndian, v) // numbers of fixed size cannot fail
	return out
}

func littleEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}

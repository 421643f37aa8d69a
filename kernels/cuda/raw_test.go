package cuda_test

import (
	"encoding/binary"

	"qwb/kernels/cuda"
)

// rawCodes returns codes as they lie in memory.
func rawCodes(e cuda.Element, q []int32) []byte {
	var out []byte
	for _, v := range q {
		switch e.Size() {
		case 1:
			out = append(out, byte(v))
		case 2:
			out = binary.LittleEndian.AppendUint16(out, uint16(v))
		default:
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		}
	}
	return out
}

// codesFrom is the inverse of rawCodes.
func codesFrom(e cuda.Element, raw []byte) []int32 {
	out := make([]int32, len(raw)/e.Size())
	for i := range out {
		switch e {
		case cuda.Int8:
			out[i] = int32(int8(raw[i]))
		case cuda.Uint8:
			out[i] = int32(raw[i])
		case cuda.Int16:
			out[i] = int32(int16(binary.LittleEndian.Uint16(raw[2*i:])))
		case cuda.Uint16:
			out[i] = int32(binary.LittleEndian.Uint16(raw[2*i:]))
		default:
			out[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return out
}

package tensor

import "fmt"

// DType is an element type. The values are those of ONNX TensorProto.DataType.
type DType uint8

const (
	Undefined      DType = 0
	Float32        DType = 1
	Uint8          DType = 2
	Int8           DType = 3
	Uint16         DType = 4
	Int16          DType = 5
	Int32          DType = 6
	Int64          DType = 7
	String         DType = 8
	Bool           DType = 9
	Float16        DType = 10
	Float64        DType = 11
	Uint32         DType = 12
	Uint64         DType = 13
	Complex64      DType = 14
	Complex128     DType = 15
	BFloat16       DType = 16
	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20
	Uint4          DType = 21
	Int4           DType = 22
	Float4E2M1     DType = 23
	Float8E8M0     DType = 24
	Uint2          DType = 25
	Int2           DType = 26
)

// dtypes is indexed by DType: the short name used in text and messages, and the width in bits (0: no fixed width).
var dtypes = [...]struct {
	name string
	bits int
}{
	Undefined: {"undefined", 0}, Float32: {"f32", 32}, Uint8: {"u8", 8}, Int8: {"i8", 8}, Uint16: {"u16", 16},
	Int16: {"i16", 16}, Int32: {"i32", 32}, Int64: {"i64", 64}, String: {"string", 0}, Bool: {"bool", 8},
	Float16: {"f16", 16}, Float64: {"f64", 64}, Uint32: {"u32", 32}, Uint64: {"u64", 64}, Complex64: {"c64", 64},
	Complex128: {"c128", 128}, BFloat16: {"bf16", 16}, Float8E4M3FN: {"f8e4m3fn", 8}, Float8E4M3FNUZ: {"f8e4m3fnuz", 8},
	Float8E5M2: {"f8e5m2", 8}, Float8E5M2FNUZ: {"f8e5m2fnuz", 8}, Uint4: {"u4", 4}, Int4: {"i4", 4},
	Float4E2M1: {"f4e2m1", 4}, Float8E8M0: {"f8e8m0", 8}, Uint2: {"u2", 2}, Int2: {"i2", 2},
}

// String returns the short name (f32, u8, i64, ...), or dtype(N) for a number ONNX does not define.
func (d DType) String() string {
	if int(d) < len(dtypes) {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Bits returns the width of one element in bits, 0 for String, Undefined and unknown types.
func (d DType) Bits() int {
	if int(d) < len(dtypes) {
		return dtypes[d].bits
	}
	return 0
}

// Bytes returns how many bytes n elements take when packed as ONNX raw_data packs them.
func (d DType) Bytes(n int) int { return (n*d.Bits() + 7) / 8 }

// IsFloat reports whether d is float16, bfloat16, float32 or float64.
func (d DType) IsFloat() bool {
	return d == Float32 || d == Float16 || d == BFloat16 || d == Float64
}

// IsInteger reports whether d is a signed or unsigned integer of 2 to 64 bits.
func (d DType) IsInteger() bool {
	switch d {
	case Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Int4, Uint4, Int2, Uint2:
		return true
	}
	return false
}

// ParseDType is the inverse of DType.String.
func ParseDType(s string) (DType, error) {
	for d, t := range dtypes {
		if t.name == s {
			return DType(d), nil
		}
	}
	return Undefined, fmt.Errorf("unknown element type %q", s)
}

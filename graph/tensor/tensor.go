// Package tensor holds dense tensors: an element type, a shape, a memory layout and the elements. It orders and
// converts elements, and computes nothing else.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package tensor

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Layout is the order in which the elements of a tensor lie in memory. Shape is always the logical ONNX shape.
type Layout uint8

const (
	RowMajor     Layout = iota // the last axis varies fastest, as in ONNX raw_data
	ChannelsLast               // rank >= 3: logical N,C,spatial... stored as N,spatial...,C
)

// Tensor is a dense tensor. Data holds the elements as a slice whose Go type follows from DType:
//
//	Float32 []float32   Float64 []float64   Int8..Int64 []int8..[]int64   Uint8..Uint64 []uint8..[]uint64
//	Bool []bool         String []string     Float16, BFloat16 []uint16 (bit patterns)
//	float8 types, Float8E8M0 []uint8 (bit patterns); 2- and 4-bit types []uint8, packed as in ONNX raw_data (first element low)
//	Complex64 []complex64, Complex128 []complex128
//
// Constants of a graph may share memory with a mapped file and must not be written to.
type Tensor struct {
	DType  DType
	Layout Layout
	Shape  []int
	Data   any
}

// New allocates a zeroed row-major tensor. The shape is not copied. It panics on an element type without storage.
func New(d DType, shape ...int) *Tensor {
	t := &Tensor{DType: d, Shape: shape}
	t.Data = MakeData(d, Count(shape))
	if t.Data == nil {
		panic("tensor: no storage for " + d.String())
	}
	return t
}

// MakeData allocates the storage of n elements of type d as described at Tensor, nil for unknown types.
func MakeData(d DType, n int) any {
	switch d {
	case Float32:
		return make([]float32, n)
	case Float64:
		return make([]float64, n)
	case Int8:
		return make([]int8, n)
	case Int16:
		return make([]int16, n)
	case Int32:
		return make([]int32, n)
	case Int64:
		return make([]int64, n)
	case Uint8, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0:
		return make([]uint8, n)
	case Uint4, Int4, Float4E2M1, Uint2, Int2:
		return make([]uint8, d.Bytes(n))
	case Uint16, Float16, BFloat16:
		return make([]uint16, n)
	case Uint32:
		return make([]uint32, n)
	case Uint64:
		return make([]uint64, n)
	case Bool:
		return make([]bool, n)
	case String:
		return make([]string, n)
	case Complex64:
		return make([]complex64, n)
	case Complex128:
		return make([]complex128, n)
	}
	return nil
}

// FromF32 wraps data (not copied) as a row-major float32 tensor. It panics if the shape does not hold len(data) elements.
func FromF32(data []float32, shape ...int) *Tensor {
	if Count(shape) != len(data) {
		panic(fmt.Sprintf("tensor: %d elements in shape %v", len(data), shape))
	}
	return &Tensor{DType: Float32, Shape: shape, Data: data}
}

// FromI64 wraps data (not copied) as a row-major int64 tensor. It panics if the shape does not hold len(data) elements.
func FromI64(data []int64, shape ...int) *Tensor {
	if Count(shape) != len(data) {
		panic(fmt.Sprintf("tensor: %d elements in shape %v", len(data), shape))
	}
	return &Tensor{DType: Int64, Shape: shape, Data: data}
}

// Count returns the number of elements of a shape: the product of its dimensions, 1 for a scalar.
func Count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// CheckedCount is Count for shapes read from a file: it refuses negative dimensions and products above limit.
func CheckedCount(shape []int64, limit int64) (int, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", shape)
		}
	}
	for _, d := range shape {
		if d == 0 {
			return 0, nil
		}
	}
	for _, d := range shape {
		if n > limit/d {
			return 0, fmt.Errorf("shape %v has more than %d elements", shape, limit)
		}
		n *= d
	}
	return int(n), nil
}

// Len returns the number of elements.
func (t *Tensor) Len() int { return Count(t.Shape) }

// F32 returns the elements of a float32 tensor in memory order, nil for any other type.
func (t *Tensor) F32() []float32 { s, _ := t.Data.([]float32); return s }

// I64 returns the elements of an int64 tensor in memory order, nil for any other type.
func (t *Tensor) I64() []int64 { s, _ := t.Data.([]int64); return s }

// Of returns the elements in memory order as []T, nil if the storage has another Go type.
func Of[T any](t *Tensor) []T { s, _ := t.Data.([]T); return s }

// Type returns the type in text form, for example f32[1,3,224,224].
func (t *Tensor) Type() string { return TypeString(t.DType, t.Shape) }

// TypeString formats an element type and a shape, for example f32[1,3,224,224]; a scalar is f32[].
func TypeString(d DType, shape []int) string {
	var b strings.Builder
	b.WriteString(d.String())
	b.WriteByte('[')
	for i, n := range shape {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, n)
	}
	b.WriteByte(']')
	return b.String()
}

// Clone returns a deep copy with the same layout.
func (t *Tensor) Clone() *Tensor {
	return &Tensor{DType: t.DType, Layout: t.Layout, Shape: slices.Clone(t.Shape), Data: cloneData(t.Data)}
}

// cloneData copies elements into memory that is not cleared before; nil is nil.
func cloneData(data any) any {
	switch s := data.(type) {
	case []float32:
		return slices.Clone(s)
	case []float64:
		return slices.Clone(s)
	case []int8:
		return slices.Clone(s)
	case []int16:
		return slices.Clone(s)
	case []int32:
		return slices.Clone(s)
	case []int64:
		return slices.Clone(s)
	case []uint8:
		return slices.Clone(s)
	case []uint16:
		return slices.Clone(s)
	case []uint32:
		return slices.Clone(s)
	case []uint64:
		return slices.Clone(s)
	case []bool:
		return slices.Clone(s)
	case []string:
		return slices.Clone(s)
	case []complex64:
		return slices.Clone(s)
	case []complex128:
		return slices.Clone(s)
	}
	return nil
}

// Equal reports whether a and b have the same type, shape, layout and bit-identical elements (NaN equals the same NaN,
// -0 differs from +0).
func Equal(a, b *Tensor) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.DType != b.DType || a.Layout != b.Layout || !slices.Equal(a.Shape, b.Shape) {
		return false
	}
	switch x := a.Data.(type) {
	case []float32:
		y := b.F32()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
				return false
			}
		}
		return true
	case []float64:
		y := Of[float64](b)
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if math.Float64bits(x[i]) != math.Float64bits(y[i]) {
				return false
			}
		}
		return true
	case []int8:
		return slices.Equal(x, Of[int8](b))
	case []int16:
		return slices.Equal(x, Of[int16](b))
	case []int32:
		return slices.Equal(x, Of[int32](b))
	case []int64:
		return slices.Equal(x, Of[int64](b))
	case []uint8:
		return slices.Equal(x, Of[uint8](b))
	case []uint16:
		return slices.Equal(x, Of[uint16](b))
	case []uint32:
		return slices.Equal(x, Of[uint32](b))
	case []uint64:
		return slices.Equal(x, Of[uint64](b))
	case []bool:
		return slices.Equal(x, Of[bool](b))
	case []string:
		return slices.Equal(x, Of[string](b))
	case []complex64:
		return slices.Equal(x, Of[complex64](b))
	case []complex128:
		return slices.Equal(x, Of[complex128](b))
	}
	return false
}

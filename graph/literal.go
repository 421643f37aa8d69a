package graph

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// formatData writes the elements of t in row-major order: [1, 2], or a bare value for a scalar.
func formatData(b *strings.Builder, t *tensor.Tensor, limit int) {
	n := t.Len()
	if n > limit {
		b.WriteString("...")
		return
	}
	t = t.ToRowMajor()
	if len(t.Shape) == 0 && n == 1 && t.DType != tensor.Complex64 && t.DType != tensor.Complex128 {
		formatElement(b, t, 0)
		return
	}
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		formatElement(b, t, i)
	}
	b.WriteByte(']')
}

func formatElement(b *strings.Builder, t *tensor.Tensor, i int) {
	switch d := t.Data.(type) {
	case []float32:
		b.WriteString(float32Element(d[i]))
	case []float64:
		b.WriteString(float64Element(d[i]))
	case []complex64:
		b.WriteString(float32Element(real(d[i])) + ", " + float32Element(imag(d[i])))
	case []complex128:
		b.WriteString(float64Element(real(d[i])) + ", " + float64Element(imag(d[i])))
	case []int8:
		b.WriteString(strconv.FormatInt(int64(d[i]), 10))
	case []int16:
		b.WriteString(strconv.FormatInt(int64(d[i]), 10))
	case []int32:
		b.WriteString(strconv.FormatInt(int64(d[i]), 10))
	case []int64:
		b.WriteString(strconv.FormatInt(d[i], 10))
	case []uint8:
		b.WriteString(packedElement(t.DType, d, i))
	case []uint16:
		if t.DType == tensor.Uint16 {
			b.WriteString(strconv.FormatUint(uint64(d[i]), 10))
		} else {
			fmt.Fprintf(b, "%#04x", d[i])
		}
	case []uint32:
		b.WriteString(strconv.FormatUint(uint64(d[i]), 10))
	case []uint64:
		b.WriteString(strconv.FormatUint(d[i], 10))
	case []bool:
		b.WriteString(strconv.FormatBool(d[i]))
	case []string:
		b.WriteString(strconv.Quote(d[i]))
	}
}

// packedElement formats element i of a type stored in bytes: whole integers, float8 patterns, or fields of 2 or 4 bits.
func packedElement(d tensor.DType, data []uint8, i int) string {
	bits := d.Bits()
	per := 8 / bits
	field := data[i/per] >> (i % per * bits) & uint8(1<<bits-1)
	switch d {
	case tensor.Int4, tensor.Int2:
		return strconv.FormatInt(int64(int8(field<<(8-bits))>>(8-bits)), 10)
	case tensor.Uint8, tensor.Uint4, tensor.Uint2:
		return strconv.FormatUint(uint64(field), 10)
	}
	return fmt.Sprintf("%#02x", field)
}

func float32Element(v float32) string {
	if v != v && math.Float32bits(v) != 0x7fc00000 {
		return fmt.Sprintf("%#08x", math.Float32bits(v))
	}
	return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(float64(v), 'g', -1, 32)), "+")
}

func float64Element(v float64) string {
	if v != v && math.Float64bits(v) != 0x7ff8000000000000 {
		return fmt.Sprintf("%#016x", math.Float64bits(v))
	}
	return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+")
}

// parseElements builds the storage of n elements of type d out of as many literals (twice as many for complex types).
// On error, at is the index of the literal that is wrong.
func parseElements(d tensor.DType, n int, lits []string) (data any, at int, err error) {
	want := n
	if d == tensor.Complex64 || d == tensor.Complex128 {
		want *= 2
	}
	if len(lits) != want {
		return nil, 0, fmt.Errorf("%d values where %s needs %d", len(lits), d, want)
	}
	switch d {
	case tensor.Float32:
		return convert(lits, parseF32)
	case tensor.Float64:
		return convert(lits, parseF64)
	case tensor.Int8:
		return convert(lits, signed[int8](8))
	case tensor.Int16:
		return convert(lits, signed[int16](16))
	case tensor.Int32:
		return convert(lits, signed[int32](32))
	case tensor.Int64:
		return convert(lits, signed[int64](64))
	case tensor.Uint8, tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ, tensor.Float8E8M0:
		return convert(lits, unsigned[uint8](8))
	case tensor.Uint16, tensor.Float16, tensor.BFloat16:
		return convert(lits, unsigned[uint16](16))
	case tensor.Uint32:
		return convert(lits, unsigned[uint32](32))
	case tensor.Uint64:
		return convert(lits, unsigned[uint64](64))
	case tensor.Bool:
		return convert(lits, strconv.ParseBool)
	case tensor.Int4, tensor.Uint4, tensor.Float4E2M1, tensor.Int2, tensor.Uint2:
		return parsePacked(d, lits)
	case tensor.Complex64:
		return convertPairs(lits, parseF32, func(re, im float32) complex64 { return complex(re, im) })
	case tensor.Complex128:
		return convertPairs(lits, parseF64, func(re, im float64) complex128 { return complex(re, im) })
	}
	return nil, 0, fmt.Errorf("element type %s has no literals of this form", d)
}

func convert[T any](lits []string, one func(string) (T, error)) (any, int, error) {
	out := make([]T, len(lits))
	for i, s := range lits {
		v, err := one(s)
		if err != nil {
			return nil, i, fmt.Errorf("%q: %w", s, reason(err))
		}
		out[i] = v
	}
	return out, 0, nil
}

func convertPairs[T, C any](lits []string, one func(string) (T, error), pair func(re, im T) C) (any, int, error) {
	flat, at, err := convert(lits, one)
	if err != nil {
		return nil, at, err
	}
	parts := flat.([]T)
	out := make([]C, len(parts)/2)
	for i := range out {
		out[i] = pair(parts[2*i], parts[2*i+1])
	}
	return out, 0, nil
}

func parsePacked(d tensor.DType, lits []string) (any, int, error) {
	bits := d.Bits()
	out := make([]uint8, d.Bytes(len(lits)))
	per := 8 / bits
	for i, s := range lits {
		var field uint8
		if d == tensor.Int4 || d == tensor.Int2 {
			v, err := strconv.ParseInt(s, base(s), bits)
			if err != nil {
				return nil, i, fmt.Errorf("%q: %w", s, reason(err))
			}
			field = uint8(v) & uint8(1<<bits-1)
		} else {
			v, err := strconv.ParseUint(s, base(s), bits)
			if err != nil {
				return nil, i, fmt.Errorf("%q: %w", s, reason(err))
			}
			field = uint8(v)
		}
		out[i/per] |= field << (i % per * bits)
	}
	return out, 0, nil
}

func signed[T int8 | int16 | int32 | int64](bits int) func(string) (T, error) {
	return func(s string) (T, error) { v, err := strconv.ParseInt(s, base(s), bits); return T(v), err }
}

func unsigned[T uint8 | uint16 | uint32 | uint64](bits int) func(string) (T, error) {
	return func(s string) (T, error) { v, err := strconv.ParseUint(s, base(s), bits); return T(v), err }
}

func parseF32(s string) (float32, error) {
	if strings.HasPrefix(s, "0x") {
		v, err := strconv.ParseUint(s, 0, 32)
		return math.Float32frombits(uint32(v)), err
	}
	if s == "nan" {
		return math.Float32frombits(0x7fc00000), nil
	}
	v, err := strconv.ParseFloat(s, 32)
	return float32(v), err
}

func parseF64(s string) (float64, error) {
	if strings.HasPrefix(s, "0x") {
		v, err := strconv.ParseUint(s, 0, 64)
		return math.Float64frombits(v), err
	}
	if s == "nan" {
		return math.Float64frombits(0x7ff8000000000000), nil
	}
	return strconv.ParseFloat(s, 64)
}

// base makes strconv take 0x for hexadecimal and nothing else: 017 is seventeen.
func base(s string) int {
	if strings.HasPrefix(s, "0x") {
		return 0
	}
	return 10
}

// reason strips what strconv puts before the cause: function and literal.
func reason(err error) error {
	if e, ok := err.(*strconv.NumError); ok {
		return e.Err
	}
	return err
}

package onnx

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph/tensor"
)

// typedData decodes a tensor whose elements are in float_data, int32_data, int64_data, double_data, uint64_data or
// string_data: which one its element type says. A field of another type is an error.
func typedData(p *tensorScan) (any, error) {
	want := typedField(p.dtype)
	for _, f := range p.typed {
		if f.num != want {
			return nil, fmt.Errorf("%s elements cannot be in field %d", p.dtype, f.num)
		}
	}
	switch p.dtype {
	case tensor.Float32:
		b, err := fixed(p.typed, protowire.Fixed32Type, 4)
		return view[float32](b), check(err, p, len(b)/4)
	case tensor.Complex64:
		b, err := fixed(p.typed, protowire.Fixed32Type, 4)
		return view[complex64](b), check(err, p, len(b)/8)
	case tensor.Float64:
		b, err := fixed(p.typed, protowire.Fixed64Type, 8)
		return view[float64](b), check(err, p, len(b)/8)
	case tensor.Complex128:
		b, err := fixed(p.typed, protowire.Fixed64Type, 8)
		return view[complex128](b), check(err, p, len(b)/16)
	case tensor.String:
		out := make([]string, len(p.typed))
		for i, f := range p.typed {
			if f.typ != protowire.BytesType {
				return nil, fmt.Errorf("string_data has wire type %d", f.typ)
			}
			out[i] = string(f.data)
		}
		return out, check(nil, p, len(out))
	case tensor.Int64:
		v, err := varints(p.typed, func(u uint64) int64 { return int64(u) })
		return v, check(err, p, len(v))
	case tensor.Uint64:
		v, err := varints(p.typed, func(u uint64) uint64 { return u })
		return v, check(err, p, len(v))
	case tensor.Uint32:
		v, err := varints(p.typed, func(u uint64) uint32 { return uint32(u) })
		return v, check(err, p, len(v))
	case tensor.Int32:
		v, err := varints(p.typed, func(u uint64) int32 { return int32(u) })
		return v, check(err, p, len(v))
	case tensor.Int16:
		v, err := varints(p.typed, func(u uint64) int16 { return int16(u) })
		return v, check(err, p, len(v))
	case tensor.Int8:
		v, err := varints(p.typed, func(u uint64) int8 { return int8(u) })
		return v, check(err, p, len(v))
	case tensor.Uint16, tensor.Float16, tensor.BFloat16:
		v, err := varints(p.typed, func(u uint64) uint16 { return uint16(u) })
		return v, check(err, p, len(v))
	case tensor.Bool:
		v, err := varints(p.typed, func(u uint64) bool { return u != 0 })
		return v, check(err, p, len(v))
	}
	v, err := varints(p.typed, func(u uint64) uint8 { return uint8(u) })
	if per := 8 / p.dtype.Bits(); per > 1 && err == nil { // several elements in one entry, the last of which may be partly used
		n, cerr := tensor.CheckedCount(p.dims, int64(len(v)*per))
		if cerr != nil || p.dtype.Bytes(n) != len(v) {
			return nil, fmt.Errorf("%s with shape %v does not agree with the %d bytes present", p.dtype, p.dims, len(v))
		}
		return v, nil
	}
	return v, check(err, p, len(v))
}

// typedField is the field that holds elements of type d where they are not in raw_data.
func typedField(d tensor.DType) protowire.Number {
	switch d {
	case tensor.Float32, tensor.Complex64:
		return tensorFloats
	case tensor.Float64, tensor.Complex128:
		return tensorDoubles
	case tensor.Int64:
		return tensorInt64s
	case tensor.Uint32, tensor.Uint64:
		return tensorUint64s
	case tensor.String:
		return tensorStrings
	}
	return tensorInt32s
}

func check(err error, p *tensorScan, have int) error {
	if err != nil {
		return err
	}
	return p.count(have)
}

// fixed returns the little-endian bytes of a repeated fixed-width field, packed or not; a single packed chunk is not copied.
func fixed(list []field, single protowire.Type, size int) ([]byte, error) {
	var out []byte
	for _, f := range list {
		b := f.data
		switch {
		case f.typ == single:
			b = f.raw[len(f.raw)-size:]
		case f.typ != protowire.BytesType || len(b)%size != 0:
			return nil, fmt.Errorf("field %d is not a list of %d-byte numbers", f.num, size)
		}
		if len(list) == 1 {
			return b, nil
		}
		out = append(out, b...)
	}
	return out, nil
}

// varints decodes a repeated integer field, packed or not.
func varints[T any](list []field, convert func(uint64) T) ([]T, error) {
	n := 0
	for _, f := range list {
		switch f.typ {
		case protowire.VarintType:
			n++
		case protowire.BytesType:
			for _, b := range f.data {
				if b < 0x80 {
					n++
				}
			}
		default:
			return nil, fmt.Errorf("field %d is not a list of integers", f.num)
		}
	}
	out := make([]T, 0, n)
	for _, f := range list {
		if f.typ == protowire.VarintType {
			out = append(out, convert(f.u))
			continue
		}
		for b := f.data; len(b) > 0; {
			v, m := protowire.ConsumeVarint(b)
			if m < 0 {
				return nil, fmt.Errorf("field %d: %w", f.num, protowire.ParseError(m))
			}
			out = append(out, convert(v))
			b = b[m:]
		}
	}
	return out, nil
}

package onnx

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph/tensor"
)

// ReadTensor decodes a serialized TensorProto, such as the input_N.pb files of ONNX test data sets. The tensor may share
// memory with b. It refuses tensors whose data lies in another file, unknown element types, and shapes that do not agree
// with the data that is there.
func ReadTensor(b []byte) (name string, t *tensor.Tensor, err error) {
	p, err := scanTensor(b)
	if err != nil {
		return "", nil, fmt.Errorf("not an ONNX tensor: %w", err)
	}
	t, err = newDecoder(nil).tensor(p)
	if err != nil {
		return p.name, nil, fmt.Errorf("tensor %q: %w", p.name, err)
	}
	return p.name, t, nil
}

// WriteTensor encodes t as a TensorProto called name; the elements are written as raw_data.
func WriteTensor(name string, t *tensor.Tensor) ([]byte, error) {
	r, err := encodeTensor(name, t)
	if err != nil {
		return nil, err
	}
	return r.flat(), nil
}

// tensorScan is a TensorProto taken apart; nothing of its content is decoded yet.
type tensorScan struct {
	raw      []byte // the message
	name     string
	dims     []int64
	dtype    tensor.DType
	data     []byte // raw_data
	hasData  bool
	typed    []field // float_data, int32_data, int64_data, double_data, uint64_data and string_data, in file order
	external []KeyValue
	isExtern bool
	segment  bool
	other    [][]byte // doc_string, metadata and fields of later ONNX versions, tags included
}

func scanTensor(b []byte) (*tensorScan, error) {
	p := &tensorScan{raw: b}
	c := cursor{rest: b}
	for c.next() {
		switch c.f.num {
		case tensorDims:
			c.ints(&p.dims)
		case tensorType:
			var v int64
			c.int(&v)
			if v < 0 || v > math.MaxUint8 {
				return nil, fmt.Errorf("unknown element type %d", v)
			}
			p.dtype = tensor.DType(v)
		case tensorSegment:
			p.segment = true
		case tensorFloats, tensorInt32s, tensorStrings, tensorInt64s, tensorDoubles, tensorUint64s:
			p.typed = append(p.typed, c.f)
		case tensorName:
			c.str(&p.name)
		case tensorRaw:
			c.bytes(&p.data)
			p.hasData = true
		case tensorExternal:
			if c.want(protowire.BytesType) {
				kv, err := scanEntry(c.f.data)
				if err != nil {
					return nil, fmt.Errorf("external_data: %w", err)
				}
				p.external = append(p.external, kv)
			}
		case tensorLocation:
			var v int64
			c.int(&v)
			p.isExtern = v == 1
		default:
			p.other = append(p.other, c.f.raw)
		}
	}
	if c.err == nil && !utf8.ValidString(p.name) {
		c.err = fmt.Errorf("name %q is not UTF-8", p.name)
	}
	return p, c.err
}

// tensor decodes a scanned tensor. What is allocated is bounded by the bytes present.
func (d *decoder) tensor(p *tensorScan) (*tensor.Tensor, error) {
	if p.segment {
		return nil, fmt.Errorf("segmented tensors are not supported")
	}
	if p.dtype == tensor.Undefined || p.dtype != tensor.String && p.dtype.Bits() == 0 {
		return nil, fmt.Errorf("unknown element type %d", uint8(p.dtype))
	}
	shape := make([]int, len(p.dims))
	for i, n := range p.dims {
		if n < 0 || n > math.MaxInt {
			return nil, fmt.Errorf("dimension %d is %d", i, n)
		}
		shape[i] = int(n)
	}
	t := &tensor.Tensor{DType: p.dtype, Shape: shape}
	var err error
	switch {
	case p.isExtern:
		t.Data, err = d.externalData(p)
	case len(p.data) > 0 || p.hasData && len(p.typed) == 0:
		if p.dtype == tensor.String {
			return nil, fmt.Errorf("strings cannot be in raw_data")
		}
		t.Data, err = rawData(p, p.data)
	default:
		t.Data, err = typedData(p)
	}
	return t, err
}

// count checks that the shape holds exactly as many elements as there are.
func (p *tensorScan) count(have int) error {
	n, err := tensor.CheckedCount(p.dims, int64(have))
	if err != nil || n != have {
		return fmt.Errorf("%s with shape %v does not agree with the %d elements present", p.dtype, p.dims, have)
	}
	return nil
}

// rawData interprets b as raw_data of p's type: little-endian elements of fixed width, in row-major order.
func rawData(p *tensorScan, b []byte) (any, error) {
	bits := int64(p.dtype.Bits())
	n, err := tensor.CheckedCount(p.dims, int64(len(b))*8/bits)
	if err != nil || p.dtype.Bytes(n) != len(b) {
		return nil, fmt.Errorf("%s with shape %v does not agree with the %d bytes present", p.dtype, p.dims, len(b))
	}
	switch p.dtype {
	case tensor.Float32:
		return view[float32](b), nil
	case tensor.Float64:
		return view[float64](b), nil
	case tensor.Int8:
		return view[int8](b), nil
	case tensor.Int16:
		return view[int16](b), nil
	case tensor.Int32:
		return view[int32](b), nil
	case tensor.Int64:
		return view[int64](b), nil
	case tensor.Uint16, tensor.Float16, tensor.BFloat16:
		return view[uint16](b), nil
	case tensor.Uint32:
		return view[uint32](b), nil
	case tensor.Uint64:
		return view[uint64](b), nil
	case tensor.Complex64:
		return view[complex64](b), nil
	case tensor.Complex128:
		return view[complex128](b), nil
	case tensor.Bool:
		out := make([]bool, n)
		for i := range out {
			out[i] = b[i] != 0
		}
		return out, nil
	}
	return view[uint8](b), nil
}

package onnx

import (
	"fmt"
	"strconv"
	"unsafe"

	"qwb/graph/tensor"
)

// tensorBody returns the elements as raw_data holds them, without copying where the machine is little-endian. Strings have
// no such form: nil.
func tensorBody(t *tensor.Tensor) ([]byte, error) {
	var b []byte
	switch d := t.ToRowMajor().Data.(type) {
	case []float32:
		b = bytesOf(d)
	case []float64:
		b = bytesOf(d)
	case []int8:
		b = bytesOf(d)
	case []int16:
		b = bytesOf(d)
	case []int32:
		b = bytesOf(d)
	case []int64:
		b = bytesOf(d)
	case []uint8:
		b = d
	case []uint16:
		b = bytesOf(d)
	case []uint32:
		b = bytesOf(d)
	case []uint64:
		b = bytesOf(d)
	case []complex64:
		b = bytesOf(d)
	case []complex128:
		b = bytesOf(d)
	case []bool: // one byte each, 0 or 1
		if len(d) > 0 {
			b = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(d))), len(d))
		}
	case []string:
		if len(d) != t.Len() || t.DType != tensor.String {
			return nil, fmt.Errorf("%s holds %d strings", t.Type(), len(d))
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("%s holds a %T", t.Type(), d)
	}
	if t.DType == tensor.String || len(b) != t.DType.Bytes(t.Len()) {
		return nil, fmt.Errorf("%s holds %d bytes", t.Type(), len(b))
	}
	return b, nil
}

// tensorHead starts a TensorProto: dims and element type.
func tensorHead(t *tensor.Tensor) *rope {
	r := &rope{}
	for _, n := range t.Shape {
		r.varint(tensorDims, uint64(n))
	}
	r.varint(tensorType, uint64(t.DType))
	return r
}

// encodeTensor encodes a TensorProto; an empty name is left out.
func encodeTensor(name string, t *tensor.Tensor) (*rope, error) {
	body, err := tensorBody(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	r := tensorHead(t)
	for _, s := range tensor.Of[string](t) {
		r.str(tensorStrings, s)
	}
	if name != "" {
		r.str(tensorName, name)
	}
	if t.DType != tensor.String {
		r.bytes(tensorRaw, body)
	}
	return r, nil
}

// encodeExternal encodes a TensorProto whose elements are at offset in the file at location.
func encodeExternal(name string, t *tensor.Tensor, location string, offset, length int64) *rope {
	r := tensorHead(t)
	r.str(tensorName, name)
	for _, kv := range []KeyValue{{"location", location}, {"offset", strconv.FormatInt(offset, 10)},
		{"length", strconv.FormatInt(length, 10)}} {
		r.message(tensorExternal, encodeEntry(kv))
	}
	r.varint(tensorLocation, 1)
	return r
}

func encodeEntry(kv KeyValue) *rope {
	r := &rope{}
	r.str(entryKey, kv.Key)
	r.str(entryValue, kv.Value)
	return r
}

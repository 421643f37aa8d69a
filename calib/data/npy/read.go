package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"qwb/graph/tensor"
)

// maxBytes bounds one array in memory; its length fits an int on 32-bit machines too.
const maxBytes = min(math.MaxInt, 1<<36)

// Read reads one array. Elements in Fortran order are brought into row-major order. Bytes behind the array are not read.
func Read(r io.Reader) (*tensor.Tensor, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	return h.Read(r)
}

// Read reads the elements that follow the header in r, as the function Read does.
func (h Header) Read(r io.Reader) (*tensor.Tensor, error) { return h.read(r, h.Shape) }

// ReadRows reads rows lo to hi (exclusive) of the first axis of an array in C order; r holds the whole file. The result
// has hi-lo rows.
func (h Header) ReadRows(r io.ReaderAt, lo, hi int) (*tensor.Tensor, error) {
	if h.Fortran && len(h.Shape) > 1 {
		return nil, errors.New("npy: rows of an array in Fortran order do not lie together")
	}
	if len(h.Shape) == 0 || lo < 0 || hi > h.Shape[0] || lo > hi {
		return nil, fmt.Errorf("npy: no rows %d to %d in shape %v", lo, hi, h.Shape)
	}
	shape := append([]int{hi - lo}, h.Shape[1:]...)
	row := int64(tensor.Count(h.Shape[1:])) * int64(h.DType.Bits()/8)
	return h.read(io.NewSectionReader(r, h.Offset+int64(lo)*row, int64(hi-lo)*row), shape)
}

// read reads the elements of shape from r. Memory grows with what is really there.
func (h Header) read(r io.Reader, shape []int) (*tensor.Tensor, error) {
	n := int64(tensor.Count(shape)) * int64(h.DType.Bits()/8)
	if n > maxBytes {
		return nil, fmt.Errorf("npy: %d bytes in one array are too many", n)
	}
	buf := make([]byte, 0, min(n, 1<<20))
	for int64(len(buf)) < n {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(n, 2*int64(cap(buf)))), buf...)
		}
		got, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+got]
		if err != nil {
			return nil, fmt.Errorf("npy: %d of the %d bytes of %s: %w", len(buf), n, tensor.TypeString(h.DType, shape), noEOF(err))
		}
	}
	t := tensor.New(h.DType, shape...)
	decode(t, buf, h.BigEndian)
	if h.Fortran && len(shape) > 1 {
		t = fromFortran(t)
	}
	return t, nil
}

// decode fills t from raw bytes of exactly its size.
func decode(t *tensor.Tensor, raw []byte, big bool) {
	var order binary.ByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	if b, ok := t.Data.([]bool); ok {
		for i, v := range raw {
			b[i] = v != 0
		}
		return
	}
	// The storage is a slice of fixed-size numbers and raw is as long as it, the two conditions of binary.Decode.
	if _, err := binary.Decode(raw, order, t.Data); err != nil {
		panic("npy: " + err.Error())
	}
}

// fromFortran returns a row-major copy of a tensor whose elements lie in Fortran order.
func fromFortran(t *tensor.Tensor) *tensor.Tensor {
	out := tensor.New(t.DType, t.Shape...)
	switch s := t.Data.(type) {
	case []bool:
		unfortran(tensor.Of[bool](out), s, t.Shape)
	case []int8:
		unfortran(tensor.Of[int8](out), s, t.Shape)
	case []uint8:
		unfortran(tensor.Of[uint8](out), s, t.Shape)
	case []int16:
		unfortran(tensor.Of[int16](out), s, t.Shape)
	case []uint16:
		unfortran(tensor.Of[uint16](out), s, t.Shape)
	case []int32:
		unfortran(tensor.Of[int32](out), s, t.Shape)
	case []uint32:
		unfortran(tensor.Of[uint32](out), s, t.Shape)
	case []float32:
		unfortran(tensor.Of[float32](out), s, t.Shape)
	case []int64:
		unfortran(tensor.Of[int64](out), s, t.Shape)
	case []uint64:
		unfortran(tensor.Of[uint64](out), s, t.Shape)
	case []float64:
		unfortran(tensor.Of[float64](out), s, t.Shape)
	}
	return out
}

func unfortran[T any](dst, src []T, shape []int) {
	index := make([]int, len(shape))
	strides := make([]int, len(shape))
	step := 1
	for a, n := range shape {
		strides[a] = step
		step *= n
	}
	from := 0
	for i := range dst {
		dst[i] = src[from]
		for a := len(shape) - 1; a >= 0; a-- {
			index[a]++
			from += strides[a]
			if index[a] < shape[a] {
				break
			}
			from -= index[a] * strides[a]
			index[a] = 0
		}
	}
}

package data

import (
	"encoding/binary"
	"fmt"
	"path"

	"qwb/graph/tensor"
)

// openBinary opens a file of binary records: CIFAR-10 if its size and every label byte say so, else elements of the model's
// input.
func (o *opener) openBinary(dir, name string) (source, error) {
	s, err := o.openCIFAR(dir, name)
	if s != nil || err != nil {
		return s, err
	}
	o.unprocessed = path.Join(dir, name)
	return o.openRaw(dir, name)
}

// rawSource is a file of samples without header: the elements of the model's input in its own type (float32 as a rule),
// little endian and row-major, one sample after the other.
type rawSource struct {
	fs         files
	path, base string
	in         Input
	shape      []int
	n          int
}

func (o *opener) openRaw(dir, name string) (source, error) {
	in, err := o.spec.only("raw files")
	if err != nil {
		return nil, err
	}
	shape, err := in.fixed()
	if err != nil {
		return nil, fmt.Errorf("a raw file says nothing about shapes: %w", err)
	}
	s := &rawSource{fs: o.fs, path: path.Join(dir, name), base: name, in: in, shape: shape}
	bytes := int64(in.DType.Bytes(tensor.Count(shape)))
	r, size, err := o.fs.open(s.path)
	if err != nil {
		return nil, err
	}
	r.Close()
	if err := o.fs.room(2 * bytes); err != nil {
		return nil, err
	}
	if bytes == 0 || in.DType.Bits() < 8 {
		return nil, fmt.Errorf("input %s cannot be read from a raw file", in)
	}
	if size == 0 || size%bytes != 0 {
		return nil, fmt.Errorf("%d bytes are no multiple of the %d of input %s", size, bytes, in)
	}
	s.n = int(size / bytes)
	return s, nil
}

func (s *rawSource) len() int          { return s.n }
func (s *rawSource) name(i int) string { return indexedName(s.base, i, s.n) }
func (s *rawSource) label(int) int     { return -1 }

func (s *rawSource) load(i int) (map[string]*tensor.Tensor, error) {
	t := tensor.New(s.in.DType, s.shape...)
	raw := make([]byte, s.in.DType.Bytes(t.Len()))
	if err := s.fs.readRecord(s.path, raw, i); err != nil {
		return nil, err
	}
	if _, err := binary.Decode(raw, binary.LittleEndian, t.Data); err != nil {
		return nil, err
	}
	return map[string]*tensor.Tensor{s.in.Name: t}, nil
}

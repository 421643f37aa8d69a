package mllm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"qwb/graph/language/checkpoint"
)

// open reads a file by its index, with the shape of the model taken from want.
func open(path string, want *checkpoint.Config) (*checkpoint.Model, error) {
	return checkpoint.OpenWith(path, "mllm", "mllm version 1", func(b []byte) (checkpoint.Config, []*checkpoint.Tensor, error) {
		tensors, err := read(b, want)
		return *want, tensors, err
	})
}

func read(b []byte, c *checkpoint.Config) ([]*checkpoint.Tensor, error) {
	le := binary.LittleEndian
	if len(b) < headerSize || le.Uint32(b) != magic || le.Uint64(b[4:]) > uint64(len(b)-headerSize) {
		return nil, errors.New("no header of mllm")
	}
	parts := map[string]checkpoint.Part{}
	for _, p := range c.Parts() {
		parts[checkpoint.TransformersName(p)] = p
	}
	var tensors []*checkpoint.Tensor
	next := headerSize + le.Uint64(b[4:])
	for rest := b[headerSize:next]; len(rest) > 0; {
		n := uint64(0)
		if len(rest) >= 4 {
			n = uint64(le.Uint32(rest))
		}
		if n == 0 || uint64(len(rest)) < n+24 {
			return nil, errors.New("the index is cut off")
		}
		name := string(rest[4 : 4+n])
		rest = rest[4+n:]
		size, offset, dtype := le.Uint64(rest), le.Uint64(rest[8:]), le.Uint32(rest[16:])
		rest = rest[20:]
		p, known := parts[name]
		if !known {
			return nil, fmt.Errorf("the model has no tensor %q", name)
		}
		if offset != next || size > uint64(len(b))-offset {
			return nil, fmt.Errorf("tensor %q of %d bytes at %d: the one before ends at %d, the file at %d", name, size, offset, next, len(b))
		}
		next = offset + size
		kind := checkpoint.Type(255)
		for t, number := range dtypes {
			if number == dtype {
				kind = t
			}
		}
		rows, cols := c.Shape(p.Role)
		if kind == 255 || kind.Bytes(rows*cols) != int(size) {
			return nil, fmt.Errorf("tensor %q has type %d and %d bytes", name, dtype, size)
		}
		tensors = append(tensors, checkpoint.NewTensor(p, name, rows, cols, kind, b[offset:next:next], nil, 0))
	}
	if next != uint64(len(b)) {
		return nil, fmt.Errorf("%d bytes follow the last tensor", uint64(len(b))-next)
	}
	return tensors, nil
}

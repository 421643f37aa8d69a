package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Files of mllm (github.com/UbiquitousLearning/mllm), version 1: an index of tensors with the names of Hugging Face, and their data. The
// shape of the model is not in the file: mllm has it in the code of each model.
const (
	mllmMagic  = 20012
	mllmHeader = 12 // magic number and length of the index
)

// MLLMTypes are the numbers of types in files of mllm.
var MLLMTypes = map[Type]uint32{F32: 0, F16: 1, GGQ4: 2, GGQ8: 8}

func isMLLM(b []byte) bool { return len(b) >= 4 && binary.LittleEndian.Uint32(b) == mllmMagic }

func readMLLM(m *Model, b []byte) error {
	known, err := m.shape()
	switch {
	case err != nil:
		return err
	case known == nil:
		return fmt.Errorf("a file of mllm holds weights alone: the shape of its model has to stand in %s or %s beside it", shapeName(m.Path),
			configFile)
	}
	m.Config = *known
	m.Pairing, m.Tied = Halves, true
	le := binary.LittleEndian
	if len(b) < mllmHeader || le.Uint64(b[4:]) > uint64(len(b)-mllmHeader) {
		return errors.New("the index is cut off")
	}
	next := mllmHeader + le.Uint64(b[4:])
	for rest := b[mllmHeader:next]; len(rest) > 0; {
		n := uint64(0)
		if len(rest) >= 4 {
			n = uint64(le.Uint32(rest))
		}
		if n == 0 || uint64(len(rest)) < n+24 {
			return errors.New("the index is cut off")
		}
		name := string(rest[4 : 4+n])
		rest = rest[4+n:]
		size, offset, number := le.Uint64(rest), le.Uint64(rest[8:]), le.Uint32(rest[16:])
		rest = rest[20:]
		if offset != next || size > uint64(len(b))-offset {
			return fmt.Errorf("tensor %q of %d bytes at %d: the one before ends at %d, the file at %d", name, size, offset, next, len(b))
		}
		next = offset + size
		if err := m.addMLLM(name, number, b[offset:next:next]); err != nil {
			return err
		}
	}
	if next != uint64(len(b)) {
		return fmt.Errorf("%d bytes follow the last tensor", uint64(len(b))-next)
	}
	return nil
}

func (m *Model) addMLLM(name string, number uint32, data []byte) error {
	p, ok, err := hfNames.find(&m.Config, name)
	if err != nil {
		return err
	}
	if !ok {
		m.leaveOut(&hfNames, name)
		return nil
	}
	if p.Role == Classifier {
		m.Tied = false
	}
	rows, cols := m.Shape(p.Role)
	for kind, n := range MLLMTypes {
		if n == number {
			if kind == F16 && len(data) == F32.bytes(rows*cols) {
				kind = F32 // mllm's converter writes what it calls float16 as float32
			}
			return m.add(NewTensor(p, name, rows, cols, kind, data, nil, 0))
		}
	}
	return fmt.Errorf("tensor %q (%s) has the type %d; float32, float16, Q4_0 and Q8_0 are read", name, p, number)
}

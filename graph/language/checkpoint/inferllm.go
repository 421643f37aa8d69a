package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Files of InferLLM (github.com/MegEngine/InferLLM): some numbers of the model, its tokens without scores, and tensors with the names of
// Hugging Face. The rest of the shape is in the code of the engine, as below.
const (
	InferLLMMagic   = 0x123456
	InferLLMEps     = 1e-6
	InferLLMTheta   = 10000
	inferHeader     = 24
	inferParameters = 20
	inferContext    = 2048 // what the program takes unless it is told otherwise
)

// InferLLMTypes are the numbers of types in files of InferLLM.
var InferLLMTypes = map[Type]uint32{F32: 0, F16: 1, WideQ4: 2, WideQ8: 4}

func isInferLLM(b []byte) bool {
	return len(b) >= 8 && binary.LittleEndian.Uint32(b) == InferLLMMagic && binary.LittleEndian.Uint32(b[4:]) == inferHeader
}

func readInferLLM(m *Model, b []byte) error {
	known, err := m.shape()
	if err != nil {
		return err
	}
	m.Config = Config{Context: inferContext, BOS: 1, EOS: []int{2}}
	if known != nil {
		m.Config = *known
	}
	c := &m.Config
	c.Family, c.NormEps, c.RopeTheta, c.Pairing, c.Tied, c.Scaling = Llama, InferLLMEps, InferLLMTheta, Halves, true, nil
	r := inferReader{b: b}
	r.header(c)
	for r.err == nil && r.at < len(r.b) {
		if t := r.tensor(c); r.err == nil {
			r.err = m.add(t)
		}
	}
	return r.err
}

// inferReader goes through a file. The first error stays.
type inferReader struct {
	b   []byte
	at  int
	err error
}

func (r *inferReader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)-r.at) {
		r.err = fmt.Errorf("%d bytes are asked for at %d of %d", n, r.at, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *inferReader) int() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

func (r *inferReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// header reads numbers and leaves tokens out.
func (r *inferReader) header(c *Config) {
	head := [6]int{}
	for i := range head {
		head[i] = r.int()
	}
	if r.err == nil && (head[2] != inferParameters || head[3] != r.at+head[2] || head[5] != head[3]+head[4]) {
		r.err = errors.New("the header is not that of a Llama model")
	}
	c.Dim, c.Heads, c.Layers, c.Hidden, c.Vocab = r.int(), r.int(), r.int(), r.int(), r.int()
	if c.KVHeads = c.Heads; c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	for range c.Vocab {
		if r.take(r.int()); r.err != nil {
			return
		}
	}
	if r.at != head[5] {
		r.fail("the tokens end at %d, not %d", r.at, head[5])
	}
	if r.err == nil {
		r.err = c.Validate()
	}
}

func (r *inferReader) tensor(c *Config) *Tensor {
	dims, length, number := r.int(), r.int(), r.int()
	rows, cols := 1, 0
	switch dims {
	case 1:
		cols = r.int()
	case 2:
		rows, cols = r.int(), r.int()
	default:
		r.fail("a tensor of %d dimensions", dims)
	}
	name := string(r.take(length))
	if r.err != nil {
		return nil
	}
	p, ok, err := hfNames.find(c, name)
	if r.err = err; !ok {
		r.fail("the model has no tensor %q", name)
		return nil
	}
	if wantRows, wantCols := c.Shape(p.Role); rows != wantRows || cols != wantCols {
		r.fail("tensor %q (%s) has shape [%d,%d], the configuration says [%d,%d]", name, p, rows, cols, wantRows, wantCols)
		return nil
	}
	if p.Role == Classifier {
		c.Tied = false
	}
	for kind, n := range InferLLMTypes {
		if int(n) == number {
			return NewTensor(p, name, rows, cols, kind, r.take(kind.bytes(rows*cols)), nil, 0)
		}
	}
	r.fail("tensor %q (%s) has the type %d; float32, float16, Q4_0 and Q8_0 are read", name, p, number)
	return nil
}

package inferllm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"qwb/graph/language/checkpoint"
)

// open reads a file as InferLLM does, with what its code knows taken from want.
func open(path string, want *checkpoint.Config) (*checkpoint.Model, error) {
	return checkpoint.OpenWith(path, "inferllm", "InferLLM", func(b []byte) (checkpoint.Config, []*checkpoint.Tensor, error) {
		r := reader{b: b}
		c, tensors := r.read(*want)
		return c, tensors, r.err
	})
}

// reader goes through a file. The first error stays.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)-r.at) {
		r.err = fmt.Errorf("%d bytes are asked for at %d of %d", n, r.at, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *reader) int() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

func (r *reader) read(c checkpoint.Config) (checkpoint.Config, []*checkpoint.Tensor) {
	head := [6]int{}
	for i := range head {
		head[i] = r.int()
	}
	if r.err == nil && (head[0] != magic || head[1] != headerSize || head[2] != 20 || head[3] != r.at+head[2] || head[5] != head[3]+head[4]) {
		r.err = errors.New("no header of InferLLM")
	}
	c.Dim, c.Heads, c.Layers, c.Hidden, c.Vocab = r.int(), r.int(), r.int(), r.int(), r.int()
	for range c.Vocab {
		if r.take(r.int()); r.err != nil {
			return c, nil
		}
	}
	if r.err == nil && r.at != head[5] {
		r.err = fmt.Errorf("the tokens end at %d, not %d", r.at, head[5])
	}
	if r.err == nil {
		r.err = c.Validate()
	}
	if r.err != nil {
		return c, nil
	}
	parts := map[string]checkpoint.Part{}
	for _, p := range c.Parts() {
		parts[checkpoint.TransformersName(p)] = p
	}
	var tensors []*checkpoint.Tensor
	for r.err == nil && r.at < len(r.b) {
		tensors = append(tensors, r.tensor(&c, parts))
	}
	return c, tensors
}

func (r *reader) tensor(c *checkpoint.Config, parts map[string]checkpoint.Part) *checkpoint.Tensor {
	dims, length, ftype := r.int(), r.int(), r.int()
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
	p, known := parts[name]
	wantRows, wantCols := c.Shape(p.Role)
	if !known || rows != wantRows || cols != wantCols {
		r.fail("the model has no tensor %q of [%d,%d]", name, rows, cols)
		return nil
	}
	for t, number := range ftypes {
		if int(number) == ftype {
			return checkpoint.NewTensor(p, name, rows, cols, t, r.take(t.Bytes(rows*cols)), nil, 0)
		}
	}
	r.fail("tensor %q has the type %d", name, ftype)
	return nil
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

package kuiper

import (
	"encoding/binary"
	"fmt"

	"qwb/graph/language/checkpoint"
)

// open reads a file as KuiperLLama does, with what it is compiled for taken from want.
func open(path string, want *checkpoint.Config) (*checkpoint.Model, error) {
	return checkpoint.OpenWith(path, "kuiper", "KuiperLLama version 3", func(b []byte) (checkpoint.Config, []*checkpoint.Tensor, error) {
		r := reader{rest: b}
		return r.read(*want)
	})
}

type reader struct{ rest []byte }

func (r *reader) take(n int) ([]byte, error) {
	if n < 0 || n > len(r.rest) {
		return nil, fmt.Errorf("%d bytes are asked for and %d are left", n, len(r.rest))
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b, nil
}

func (r *reader) read(c checkpoint.Config) (checkpoint.Config, []*checkpoint.Tensor, error) {
	b, err := r.take(headerSize)
	if err != nil {
		return c, nil, err
	}
	n := func(i int) int { return int(int32(binary.LittleEndian.Uint32(b[4*i:]))) }
	c.Dim, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.Vocab, c.Context = n(0), n(1), n(2), n(3), n(4), n(5), n(6)
	group := n(7)
	if c.Vocab >= 0 || c.Heads < 1 || group < 1 {
		return c, nil, fmt.Errorf("vocabulary %d, %d heads, groups of %d", c.Vocab, c.Heads, group)
	}
	c.Vocab, c.Tied, c.HeadDim = -c.Vocab, false, c.Dim/c.Heads
	if err := c.Validate(); err != nil {
		return c, nil, err
	}
	var tensors []*checkpoint.Tensor
	one := func(role checkpoint.Role, layer int, t checkpoint.Type) {
		if err != nil {
			return
		}
		p := checkpoint.Part{Role: role, Layer: layer}
		rows, cols := c.Shape(role)
		var data, scales []byte
		if data, err = r.take(t.Bytes(rows * cols)); err == nil && t == checkpoint.Groups {
			scales, err = r.take(4 * (rows * cols / group))
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", p, err)
			return
		}
		size := 0
		if t == checkpoint.Groups {
			size = group
		}
		tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, t, data, scales, size))
	}
	layers := func(t checkpoint.Type, roles ...checkpoint.Role) {
		for _, role := range roles {
			for l := range c.Layers {
				one(role, l, t)
			}
		}
	}
	layers(checkpoint.Groups, quantized...)
	one(checkpoint.Classifier, -1, checkpoint.Groups)
	one(checkpoint.Embedding, -1, checkpoint.F32)
	layers(checkpoint.F32, checkpoint.AttentionNorm, checkpoint.FeedNorm)
	one(checkpoint.FinalNorm, -1, checkpoint.F32)
	if err == nil && len(r.rest) > 0 {
		err = fmt.Errorf("%d bytes follow the last tensor", len(r.rest))
	}
	return c, tensors, err
}

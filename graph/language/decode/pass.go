package decode

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
)

// Pass is texts within a walk, in front of the attention or the feed-forward part of a layer, or of the classifier. It is valid until
// Walker.Resume returns.
type Pass struct{ v *visit }

// Half says where the texts stand: 0 and 1 are attention and feed-forward part of the first layer, 2*Layers is the classifier.
func (p *Pass) Half() int { return p.v.half }

// Finish runs the texts from where they stand to the end, which are as Engine.Forward computes them from the first token on, and returns
// the logits of all their tokens, Vocab each, text after text. They are valid until the next call. r, if not nil, rounds a part of the
// cache in the layers that are run; otherwise it is that of the engine.
func (p *Pass) Finish(r *Rounding) ([]float32, error) {
	v, e := p.v, p.v.engine
	n := v.load(0)
	for _, k := range v.caches {
		k.Round(r)
	}
	for half := v.half; half < 2*len(e.layers); half++ {
		l := half / 2
		leave, err := e.enter(v.ctx, l)
		if err != nil {
			return nil, err
		}
		if half%2 == 0 {
			e.attend(&e.layers[l], l, n)
		} else {
			e.feed(&e.layers[l], n)
		}
		leave()
	}
	return e.classify(v.ctx, e.s.x, n)
}

// Attended is what the attention that the texts stand in front of hands to its output matrix, QueryDim numbers for each token. It is valid
// until the next call.
func (p *Pass) Attended(r *Rounding) []float32 {
	v := p.v
	n := v.load(0)
	for _, k := range v.caches {
		k.Round(r)
	}
	v.engine.look(&v.engine.layers[v.half/2], v.half/2, n)
	return v.engine.s.attended.x
}

// Product writes to dst the products of rows of activations with a matrix of the engine as it stands.
func (e *Engine) Product(dst, x []float32, p checkpoint.Part) {
	m := e.classifier
	if at := e.matrix(p); at != nil {
		m = *at
	}
	_, cols := e.Shape(p.Role)
	e.multiply(&rows{x: x, cols: cols}, len(x)/cols, output{m, dst})
}

// Ends are the least and the largest code that Group makes.
func (w Weights) Ends() (lo, hi int32) {
	r, _ := w.rule() // wrong weights make no codes
	return r.Least(), r.Max
}

// Quantize returns the model with its float matrices in groups, as an engine of the weights multiplies them: there they lie in memory, a
// byte for each element and the scales.
func (w Weights) Quantize(ctx context.Context, m *checkpoint.Model, workers int) (*checkpoint.Model, error) {
	rule, err := w.rule()
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	p := packer{ctx: ctx, engine: &Engine{}, model: m, options: &Options{Weights: w}, rule: rule}
	done := map[checkpoint.Part]*checkpoint.Tensor{}
	for _, t := range m.Tensors() {
		if !w.Quantizes(t) || p.part(t.Part) == nil {
			continue
		}
		c := p.codes(t)
		if p.err != nil {
			break
		}
		codes, scales := make([]byte, t.Len()), make([]byte, 4*t.Len()/c.size)
		groups := t.Len() / c.size
		pieces := min(groups, 64)
		exec.Parallel(workers).Run(pieces, func(i int) {
			from, to := i*groups/pieces, (i+1)*groups/pieces
			q, s := make([]int8, (to-from)*c.size), make([]float32, to-from)
			c.read(q, s, from*c.size)
			for k, code := range q {
				codes[from*c.size+k] = byte(code)
			}
			for k, scale := range s {
				binary.LittleEndian.PutUint32(scales[4*(from+k):], math.Float32bits(scale))
			}
		})
		p.broken(c)
		m.Forget(t)
		done[t.Part] = checkpoint.NewTensor(t.Part, t.Name, t.Rows, t.Cols, checkpoint.Groups, codes, scales, c.size)
	}
	if p.err != nil {
		return nil, fmt.Errorf("decode: %w", p.err)
	}
	return m.With(done), nil
}

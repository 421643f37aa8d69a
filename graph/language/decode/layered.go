package decode

import (
	"context"
	"slices"

	"qwb/graph/language/checkpoint"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// enter packs the matrices of a layer where the engine does not have them; leave gives up what was packed.
func (e *Engine) enter(ctx context.Context, l int) (leave func(), err error) {
	layer := &e.layers[l]
	if e.packer == nil || layer.output != nil {
		return func() {}, ctx.Err()
	}
	e.packer.ctx = ctx
	layer.matrices = e.packer.matrices(l)
	return func() {
		for _, m := range layer.all(len(layer.experts)) {
			e.giveUp(m)
		}
		layer.matrices = matrices{}
	}, e.packer.err
}

// all are the matrices with so many of the experts, nil among them.
func (m *matrices) all(experts int) []*linear {
	list := []*linear{m.query, m.key, m.value, m.output, m.gate, m.up, m.down, m.router, m.shared.gate, m.shared.up, m.shared.down}
	for _, x := range m.experts[:min(experts, len(m.experts))] {
		list = append(list, x.gate, x.up, x.down)
	}
	return list
}

// giveUp keeps the memory of a matrix of floats for others of its size.
func (e *Engine) giveUp(m *linear) {
	if e.spare != nil && m != nil && m.floats != nil {
		k, n := m.floats.Size()
		e.spare[[2]int{k, n}] = append(e.spare[[2]int{k, n}], m.floats)
	}
}

// packFloats packs rows of a matrix of floats, in memory that was given up where there is some; nil after an error.
func (p *packer) packFloats(t *checkpoint.Tensor) *kernels.GemmF32 {
	e := p.engine
	if e.packer == nil {
		if x := p.floats(t); x != nil {
			return e.table.PackGemmF32(x, t.Cols, t.Rows, t.Cols, true)
		}
		return nil
	}
	x, size, m := grow(&e.unpacked, t.Len()), [2]int{t.Cols, t.Rows}, new(kernels.GemmF32)
	if list := e.spare[size]; len(list) > 0 {
		m, e.spare[size] = list[len(list)-1], list[:len(list)-1]
	}
	t.Read(x, 0)
	if slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 }) {
		p.err = t.Finite()
		return nil
	}
	e.table.RepackGemmF32(m, x, t.Cols, t.Rows, t.Cols, true)
	return m
}

// ClassifierParts is in how many parts a classifier of floats is packed, one after the other, where layers are.
const ClassifierParts = 16

// classifyInParts writes the products of rows of e.s.final with the classifier, which is packed part by part if it is of floats.
func (e *Engine) classifyInParts(ctx context.Context, logits []float32, rows int) error {
	p := e.end
	p.ctx = ctx
	t := p.part(checkpoint.Part{Role: checkpoint.Classifier, Layer: -1})
	if t == nil {
		return p.err
	}
	if p.codes(t) != nil {
		if m := p.of(t.Part); m != nil {
			e.multiply(&e.s.final, rows, output{m, logits})
		}
		return p.err
	}
	for from, n := 0, (t.Rows+ClassifierParts-1)/ClassifierParts; from < t.Rows && p.err == nil; from += n {
		part := t.Strip(from, min(n, t.Rows-from))
		if m := p.packFloats(part); m != nil {
			m.Run(e.par, logits[from:], e.Vocab, e.s.final.x, t.Cols, rows, ref.Epilogue{})
			e.giveUp(&linear{floats: m})
		}
		p.model.Forget(part)
	}
	return p.err
}

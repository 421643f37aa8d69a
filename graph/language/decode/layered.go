package decode

import (
	"context"

	"qwb/graph/language/checkpoint"
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
	return func() { layer.matrices = matrices{} }, e.packer.err
}

// classifierParts is in how many parts a classifier of floats is packed, one after the other.
const classifierParts = 16

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
	for from, n := 0, (t.Rows+classifierParts-1)/classifierParts; from < t.Rows && p.err == nil; from += n {
		part := t.Strip(from, min(n, t.Rows-from))
		if x := p.floats(part); x != nil {
			m := e.table.PackGemmF32(x, t.Cols, part.Rows, t.Cols, true)
			m.Run(e.par, logits[from:], e.Vocab, e.s.final.x, t.Cols, rows, ref.Epilogue{})
		}
	}
	p.model.Forget(t)
	return p.err
}

package decode

import (
	"context"
	"fmt"

	"qwb/graph/language/checkpoint"
)

// Walker goes through a model layer by layer with several texts at once, so that matrices can be changed on the way: what comes behind
// sees what the changed ones give.
type Walker struct {
	// Inputs is shown rows of activations that matrices are about to be multiplied with, cols elements each, text by text. They are the
	// caller's until it returns.
	Inputs func(parts []checkpoint.Part, x []float32, cols int) error
	// Ready is called once all texts have shown what the matrices read. It may replace them (Engine.Replace).
	Ready func(parts []checkpoint.Part) error
}

// Walk runs texts, ids each with the one that begins them, through the layers: the matrices that read the same input are met together, in
// the order of computation, and each layer is computed twice. The classifier comes last, also where it is the embedding. The
// residual streams of all texts are in memory, Dim float32 for each token. It is for models on the processor.
func (e *Engine) Walk(ctx context.Context, texts [][]int, w Walker) error {
	streams := make([][]float32, len(texts))
	for i, ids := range texts {
		if len(ids) > e.Context {
			return fmt.Errorf("decode: text %d has %d tokens, the model was made for %d", i, len(ids), e.Context)
		}
		streams[i] = make([]float32, len(ids)*e.Dim)
		for t, id := range ids {
			if id < 0 || id >= e.Vocab {
				return fmt.Errorf("decode: text %d: token %d is outside of the vocabulary of %d", i, id, e.Vocab)
			}
			row := streams[i][t*e.Dim:][:e.Dim]
			e.embed(row, id)
			e.scale(row, e.EmbedScale)
		}
	}
	v := visit{Walker: w, engine: e, ctx: ctx, texts: texts, streams: streams}
	for l := range e.layers {
		layer := &e.layers[l]
		v.stage(l, layer.attentionNorm, nil, checkpoint.Query, checkpoint.Key, checkpoint.Value)
		v.stage(l, nil, func(n int) { e.attend(layer, l, n) }, checkpoint.Output)
		v.advance(func(n int) { e.attend(layer, l, n) })
		v.stage(l, layer.feedNorm, nil, checkpoint.Gate, checkpoint.Up)
		v.stage(l, nil, func(n int) { e.feed(layer, n) }, checkpoint.Down)
		v.advance(func(n int) { e.feed(layer, n) })
	}
	v.stage(-1, e.finalNorm, nil, checkpoint.Classifier)
	return v.err
}

// visit is the state of Walk.
type visit struct {
	Walker
	engine  *Engine
	ctx     context.Context
	texts   [][]int
	streams [][]float32
	err     error
}

// load makes a text the engine's batch, with an empty cache, and returns how many rows it has.
func (v *visit) load(i int) int {
	s, n := &v.engine.s, len(v.texts[i])
	cache := v.engine.NewCache()
	cache.reserve(n)
	copy(grow(&s.x, n*v.engine.Dim), v.streams[i])
	at := grow(&s.at, n)
	for t := range at {
		at[t] = place{cache, t}
	}
	v.engine.rotary.reach(n)
	v.engine.local.reach(n)
	return n
}

// stage shows what matrices read: the norm of the streams, or what compute leaves as the input of its last product.
func (v *visit) stage(layer int, norm []float32, compute func(n int), roles ...checkpoint.Role) {
	e := v.engine
	parts := make([]checkpoint.Part, len(roles))
	for i, r := range roles {
		parts[i] = checkpoint.Part{Role: r, Layer: layer}
	}
	for i := range v.texts {
		if v.err == nil {
			v.err = v.ctx.Err()
		}
		if v.err != nil {
			return
		}
		n := v.load(i)
		x := &e.s.norm
		switch {
		case compute == nil:
			e.normalize(x, e.s.x, norm, n)
		case roles[0] == checkpoint.Output:
			x = &e.s.attended
			compute(n)
		default:
			x = &e.s.hidden
			compute(n)
		}
		v.err = v.Inputs(parts, x.x, x.cols)
	}
	if v.err == nil {
		v.err = v.Ready(parts)
	}
}

// advance replaces the streams by what compute makes of them.
func (v *visit) advance(compute func(n int)) {
	for i := range v.texts {
		if v.err == nil {
			v.err = v.ctx.Err()
		}
		if v.err != nil {
			return
		}
		compute(v.load(i))
		copy(v.streams[i], v.engine.s.x)
	}
}

package decode

import (
	"context"
	"errors"
	"fmt"

	"qwb/graph/language/checkpoint"
)

// Replace multiplies one matrix of the model in the form that w says, until restore is called. m is the model that the engine was
// made of; everything else of the engine stays as it is, so that what one matrix does can be seen. The embedding of a tied model is
// its classifier too, and is replaced in both places. Other matrices may be replaced meanwhile, if they are restored in the reverse
// order.
func (e *Engine) Replace(ctx context.Context, m *checkpoint.Model, part checkpoint.Part, w Weights) (restore func(), err error) {
	if e.device != nil {
		return nil, errors.New("decode: matrices of an engine on a device are not replaced")
	}
	rule, err := w.rule()
	if err != nil {
		return nil, fmt.Errorf("decode: %s: %w", part, err)
	}
	p := packer{ctx: ctx, engine: e, model: m, options: &Options{Weights: w, Layered: e.packer != nil}, rule: rule}
	classifier, embed, end := e.classifier, e.embed, e.end
	switch at := e.matrix(part); {
	case at != nil:
		old, packed := *at, p.of(part)
		*at, restore = packed, func() { *at = old; e.giveUp(packed) }
	case part.Role == checkpoint.Embedding || part.Role == checkpoint.Classifier:
		restore = func() { e.classifier, e.embed, e.end = classifier, embed, end }
		ends, row := p.ends()
		if part.Role == checkpoint.Embedding {
			e.embed = row
		}
		if part.Role == checkpoint.Classifier || m.Tied {
			e.classifier, e.end = ends, &p
		}
	default:
		return nil, fmt.Errorf("decode: there is no matrix %s", part)
	}
	if p.err != nil {
		restore()
		return nil, fmt.Errorf("decode: %w", p.err)
	}
	return restore, nil
}

// matrix returns where a matrix within a layer stands, nil if there is none.
func (e *Engine) matrix(p checkpoint.Part) **linear {
	if p.Layer < 0 || p.Layer >= len(e.layers) {
		return nil
	}
	l := &e.layers[p.Layer]
	feed := &l.mlp
	if p.Expert < len(l.experts) {
		feed = &l.experts[p.Expert]
	}
	switch p.Role {
	case checkpoint.SharedGate:
		return &l.shared.gate
	case checkpoint.SharedUp:
		return &l.shared.up
	case checkpoint.SharedDown:
		return &l.shared.down
	case checkpoint.Query:
		return &l.query
	case checkpoint.Key:
		return &l.key
	case checkpoint.Value:
		return &l.value
	case checkpoint.Output:
		return &l.output
	case checkpoint.Gate, checkpoint.ExpertGate:
		return &feed.gate
	case checkpoint.Up, checkpoint.ExpertUp:
		return &feed.up
	case checkpoint.Down, checkpoint.ExpertDown:
		return &feed.down
	}
	return nil
}

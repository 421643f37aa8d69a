package tune

import (
	"context"
	"errors"
	"maps"
	"slices"

	"qwb/quantizer/rewrite"
)

// rewritten is this bench on the reference after other steps: its samples, bounds and counts, and of its tuned values those that fit.
func (b *Bench) rewritten(ctx context.Context, steps []rewrite.Step) (*Bench, error) {
	if b.Rewrite == nil {
		return nil, errors.New("the plan allows no steps")
	}
	r, err := b.Rewrite(ctx, b, steps)
	if err != nil {
		return nil, err
	}
	return b.on(r), nil
}

// on is this bench with reference, graph and statistics of another.
func (b *Bench) on(r *Bench) *Bench {
	next := *b
	next.Reference, next.Steps, next.Graph, next.Set, next.Frozen, next.Simulate, next.Sums = r.Reference, r.Steps, r.Graph, r.Set, r.Frozen,
		r.Simulate, r.Sums
	next.first, next.base, next.summed = r.Set, nil, nil
	next.Rewrite, next.Ranges, next.Chosen = r.Rewrite, r.Ranges, nil // slots are others
	return &next
}

// sameSteps reports whether two lists of steps are the same, to the bit.
func sameSteps(a, b []rewrite.Step) bool {
	return slices.EqualFunc(a, b, func(x, y rewrite.Step) bool {
		return x.Kind == y.Kind && x.At == y.At && slices.Equal(x.Nodes, y.Nodes) &&
			slices.EqualFunc(x.Groups, y.Groups, func(g, h []int) bool { return slices.Equal(g, h) }) &&
			maps.EqualFunc(x.Vectors, y.Vectors, func(v, w []float32) bool { return slices.Equal(v, w) })
	})
}

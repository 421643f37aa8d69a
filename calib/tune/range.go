package tune

import (
	"context"
	"slices"

	"qwb/calib/tune/round"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Range chooses scales and zero points anew: of weights, whose values stay as they are, operator by operator behind a quantized prefix (see
// rangeProposer), and then of activations (see Bench.activations).
var Range = Method{Name: "range", Doc: "searches scales: for weights by operator error, Lp 2.4 error and full range; for activations " +
	"with each observer",
	Changes: []string{"scales", "biases"}, Needs: []string{"data"}, Proposer: rangeProposer,
	Then: func(ctx context.Context, b *Bench) (*Report, error) { return b.activations(ctx) }}

// lp is the power of the error that counts outliers more than its square does, without any data: that of QDrop and llm-compressor.
const lp = 2.4

// rangeProposer proposes for the weight as it is
//
//   - the scales with the least sum of E[x^2] (w - wq)^2, x being what each element is multiplied by, less its mean where the mean error
//     goes into a bias: the expected squared error of the output were inputs independent of each other;
//   - those with the least sum of |w - wq|^2.4;
//   - those that give the largest magnitude of each part the lowest integer, where that is one more than the highest and the magnitude is a
//     negative number's;
//   - the scales as they are, with the correction of the bias that the others have too.
//
// The search is round.Range; what it takes from the length of a part is given back by round.KeepGain.
var rangeProposer = &Proposer{Name: "range", Trials: 4, Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
	h, err := l.importance(ctx)
	if err != nil {
		return nil, err
	}
	weight := l.Graph.Const(l.Graph.Node(l.Node).Inputs[1]).ToRowMajor()
	c, now := &l.Set.Slot(l.Slot).Config, l.Set.Params(l.Slot)
	var list []Proposal
	if tunableBias(l.Graph, l.Set, l.Node) > 0 {
		list = append(list, Proposal{By: "bias"})
	}
	add := func(by string, find func(p round.Part, i int) (qmath.Grid, error), importance []float64) error {
		p, err := ranged(weight, c, importance, l.Threads, find)
		if err != nil || slices.Equal(p.Scale, now.Scale) && slices.Equal(p.ZeroPoint, now.ZeroPoint) {
			return err
		}
		for _, q := range list {
			if q.Params != nil && slices.Equal(p.Scale, q.Params.Scale) && slices.Equal(p.ZeroPoint, q.Params.ZeroPoint) {
				return nil
			}
		}
		list = append(list, Proposal{By: by, Params: p})
		return nil
	}
	squared, power := round.NewRanger(*c, 2), round.NewRanger(*c, lp)
	if h != nil {
		if err := add("range by E[x^2]", func(p round.Part, _ int) (qmath.Grid, error) { return kept(*c, squared, p) }, h); err != nil {
			return nil, err
		}
	}
	if err := add("range by Lp 2.4", func(p round.Part, _ int) (qmath.Grid, error) { return kept(*c, power, p) }, nil); err != nil {
		return nil, err
	}
	err = add("full range", func(p round.Part, i int) (qmath.Grid, error) {
		if g, ok := round.FullRange(*c, p.Values); ok {
			return g, nil
		}
		return now.Grid(c, i), nil
	}, nil)
	return list, err
}}

// kept is the best range of a part, with the gain restored that it takes.
func kept(c tqc.Config, r *round.Ranger, p round.Part) (qmath.Grid, error) {
	g, err := r.Range(p)
	if err != nil {
		return g, err
	}
	return round.KeepGain(c, g, p), nil
}

// ranged finds a grid for each part of a weight, row-major; importance is by element, nil for none.
func ranged(weight *tensor.Tensor, c *tqc.Config, importance []float64, threads int,
	find func(p round.Part, i int) (qmath.Grid, error)) (*tqc.Params, error) {
	parts, err := tqc.PartsOf(weight, c)
	if err != nil {
		return nil, err
	}
	n := parts.Count()
	p := &tqc.Params{Scale: make([]float32, n), ZeroPoint: make([]int32, n)}
	errs := make([]error, n)
	one := func(i int) {
		var part round.Part
		parts.Each(i, func(from, to int) {
			part.Values = append(part.Values, weight.F32()[from:to]...)
			if importance != nil {
				part.Importance = append(part.Importance, importance[from:to]...)
			}
		})
		var g qmath.Grid
		g, errs[i] = find(part, i)
		p.Scale[i], p.ZeroPoint[i] = g.Scale, g.ZeroPoint
	}
	if par := exec.Parallel(threads); par != nil {
		par(n, one)
	} else {
		for i := range n {
			one(i)
		}
	}
	for _, err := range errs { // the first in order, whatever the threads
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

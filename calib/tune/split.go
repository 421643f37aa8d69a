package tune

import (
	"cmp"
	"context"
	"math"
	"slices"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/tqc"
)

// Split takes large weights apart where one scale serves a whole weight, in two turns: channels whose readers' weights are the largest
// are doubled (kind split-channels), then operators with few large weights left become two (kind split-weight). Both cost work in the
// quantized network; what is kept is judged by the held-out error of the outputs.
var Split = Method{Name: "split", Doc: "halves large weights by duplicating channels or operators, if weights have one scale and the " +
	"outputs improve",
	Changes: []string{"structure"}, Needs: []string{"data"}, Run: func(ctx context.Context, b *Bench) (*Report, error) {
		return restructure(ctx, b, splitChannels, splitWeights)
	}}

const (
	// maxDoubled is the largest part of the channels that are doubled.
	maxDoubled = 0.05
	// maxLarge is the largest part of the weights that are above half of the largest, for an operator to become two.
	maxLarge = 0.01
	// worthSplit is the least share of a weight's squared step that a split takes off.
	worthSplit = 0.3
)

// oneScale reports whether the weight of an operator is quantized by one scale.
func (b *Bench) oneScale(r *rewrite.Reader) bool {
	s := b.Set.Input(r.Node, r.At)
	return b.Set.Domains[r.Node] == tqc.DomainInt && s != tqc.NoSlot && b.Set.Slot(s).State().Quantizes() && len(b.Set.Params(s).Scale) == 1
}

// splitChannels lists convolutions of which some channels are worth being doubled: for each reader the largest weight then falls.
func splitChannels(_ context.Context, b *Bench) ([]*candidate, error) {
	g := b.Reference
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for _, id := range order {
		readers, n, ok := rewrite.CanSplit(g, id)
		if !ok || slices.ContainsFunc(readers, func(r *rewrite.Reader) bool { return !b.oneScale(r) }) {
			continue
		}
		large := make([]float64, n) // by channel: its largest weight against the largest of the reader
		for _, r := range readers {
			own, top := make([]float64, n), 0.0
			r.Each(func(_, i int, w []float32) {
				for _, x := range w {
					own[i] = max(own[i], math.Abs(float64(x)))
				}
				top = max(top, own[i])
			})
			for c := range own {
				if top > 0 {
					large[c] = max(large[c], own[c]/top)
				}
			}
		}
		if c := doubled(large); c != nil {
			c.node, c.steps[0].At = g.Node(id).Name, g.Node(id).Name
			list = append(list, c)
		}
	}
	return list, nil
}

// doubled chooses the channels whose halving lowers the largest weight most for their number; nil where that is not worth it.
func doubled(large []float64) *candidate {
	order := make([]int, len(large))
	for i := range order {
		order[i] = i
	}
	arrange.Stable(order, func(a, b int) int { return cmp.Compare(large[b], large[a]) })
	most := int(math.Ceil(maxDoubled * float64(len(large))))
	if most >= len(large) || large[order[0]] == 0 {
		return nil
	}
	best, left := 0, 1.0
	for k := 1; k <= most; k++ {
		if after := max(large[order[0]]/2, large[order[k]]); after < left {
			best, left = k, after
		}
	}
	if best == 0 || left*left > 1-worthSplit {
		return nil
	}
	return &candidate{by: rewrite.SplitChannels.Name, predicted: left * left,
		steps: []rewrite.Step{{Kind: rewrite.SplitChannels.Name, Groups: [][]int{slices.Sorted(slices.Values(order[:best]))}}}}
}

// splitWeights lists operators with few weights above half of the largest.
func splitWeights(_ context.Context, b *Bench) ([]*candidate, error) {
	g := b.Reference
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for _, id := range order {
		r := rewrite.ReaderOf(g, id)
		if r == nil || r.At != graph.WeightInput || !b.oneScale(r) {
			continue
		}
		w := g.Const(g.Node(id).Inputs[r.At]).F32()
		top, above := float32(0), 0
		for _, x := range w {
			top = max(top, x, -x)
		}
		for _, x := range w {
			if max(x, -x) > top/2 {
				above++
			}
		}
		if top == 0 || float64(above) > maxLarge*float64(len(w)) {
			continue
		}
		list = append(list, &candidate{node: g.Node(id).Name, by: rewrite.SplitWeight.Name, predicted: 0.25,
			steps: []rewrite.Step{{Kind: rewrite.SplitWeight.Name, At: g.Node(id).Name, Vectors: map[string][]float32{"threshold": {top / 2}}}}})
	}
	return list, nil
}

package tune

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/quantizer/overlay"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// expected is the bias correction of a trial where there are Gram statistics in place of samples: what rounding the weights adds to the mean of the
// output, -(Wq - W) E[x] by output channel, less what the bias has been corrected by already. E[x] is that of the float graph. It is nil where
// there are no moments of the operator.
func (w *walk) expected(l layer, t *trial) ([]float64, error) {
	n := w.Graph.Node(l.node)
	g, err := w.Grams(n.Name)
	if err != nil || g == nil {
		return nil, err
	}
	reference, now := w.Reference.Const(n.Inputs[overlay.WeightInput]).ToRowMajor(), t.weight
	if now == nil {
		now = w.Graph.Const(n.Inputs[overlay.WeightInput]).ToRowMajor()
	}
	set := t.set
	if set == nil {
		set = w.Set
	}
	if s := set.Input(l.node, overlay.WeightInput); s != tqc.NoSlot && set.Slot(s).State().Quantizes() {
		rounded := tensor.New(tensor.Float32, reference.Shape...)
		if err := sim.Apply(rounded, now, &set.Slot(s).Config, set.Params(s), sim.Quantize); err != nil {
			return nil, err
		}
		now = rounded
	}
	m, ok := matrixOf(n, reference)
	if !ok || m.groups != g.Groups || m.k != g.K || m.groups*m.rows != l.channels {
		return nil, fmt.Errorf("moments of %d groups of %d inputs for a weight of shape %v", g.Groups, g.K, reference.Shape)
	}
	v := n.Inputs[biasInput]
	was, is := w.Reference.Const(v).F32(), w.Graph.Const(v).F32()
	alpha := 1.0
	if n.Op == "Gemm" {
		alpha = float64(n.AttrFloat("alpha", 1))
	}
	out := make([]float64, l.channels)
	for group := range m.groups {
		mean, a, b := g.Mean(group), m.take(reference.F32(), group), m.take(now.F32(), group)
		for r := range m.rows {
			sum := 0.0
			for i, x := range mean {
				sum += float64((b[r*m.k+i] - a[r*m.k+i]) * x)
			}
			c := group*m.rows + r
			out[c] = -float64(alpha*sum) - (float64(is[c]) - float64(was[c]))
		}
	}
	return out, nil
}

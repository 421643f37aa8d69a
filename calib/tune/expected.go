package tune

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/tqc"
)

// expected is the bias correction of a trial where there are Gram statistics in place of samples: what rounding the weights adds to the
// mean of the output, -(Wq - W) E[x] by output channel, less what the bias has been corrected by already. E[x] is that of the float graph.
// It is nil where there are no moments of the operator.
func (w *walk) expected(l layer, t *trial) ([]float64, error) {
	n := w.Graph.Node(l.node)
	g, err := w.Grams(n.Name)
	if err != nil || g == nil {
		return nil, err
	}
	reference, now := w.Reference.Const(n.Inputs[graph.WeightInput]), t.weight
	if now == nil {
		now = w.Graph.Const(n.Inputs[graph.WeightInput])
	}
	set := t.set
	if set == nil {
		set = w.Set
	}
	if s := set.Input(l.node, graph.WeightInput); s != tqc.NoSlot && set.Slot(s).State().Quantizes() {
		if now, err = quantized(set, s, now); err != nil {
			return nil, err
		}
	}
	m, ok := matrixOf(n, reference)
	if !ok || m.Groups != g.Groups || m.K() != g.K || m.Groups*m.Rows() != l.channels {
		return nil, fmt.Errorf("moments of %d groups of %d inputs for a weight of shape %v", g.Groups, g.K, reference.Shape)
	}
	out := m.meanShift(n, reference, now, g.Mean)
	v := n.Inputs[graph.BiasInput]
	was, is := w.Reference.Const(v).F32(), w.Graph.Const(v).F32()
	for c := range out {
		out[c] -= float64(is[c]) - float64(was[c])
	}
	return out, nil
}

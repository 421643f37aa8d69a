package tune

import (
	"context"
	"errors"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Analytic is bias correction from statistics: what rounding the weights of an operator does to the mean of its output follows from the
// mean of its input, by channel and kernel tap (Nagel et al. 2019, section 4.2.1):
//
//	b'_c = b_c - sum over taps t, input channels i of (Wq - W)[c,i,t] E[x_i,t]
//
// with W as it is and as it is rounded, and E from the exact sums of the float graph. What earlier operators do to the input is not in it.
// Fitting needs no data; the held-out samples tell what it is worth.
var Analytic = Method{Name: "bias-analytic",
	Doc:     "corrects each bias for the shift of the channel mean that weight rounding causes; computed from the statistics",
	Changes: []string{"biases"}, Needs: []string{NeedsStatistics}, FromGrams: true,
	Proposer: &Proposer{Name: "bias-analytic", Trials: 1, Biases: true, Propose: predicted}}

// errNoSums says that a method needs sums that the statistics do not have.
var errNoSums = errors.New("the statistics have no sums of what operators read: calibrate anew for them, or use --method bias")

// predicted proposes what the sums predict.
func predicted(ctx context.Context, l *LayerBench) ([]Proposal, error) {
	if err := l.resum(ctx); err != nil {
		return nil, err
	}
	if l.Sums == nil {
		return nil, errNoSums
	}
	d, err := l.shift(l.Node)
	if err != nil || d == nil {
		return nil, err
	}
	return []Proposal{{By: "bias-analytic", Bias: d}}, nil
}

// resum makes sums of the samples to fit on where those of the statistics have seen others.
func (b *Bench) resum(ctx context.Context) error {
	if !b.Resum || b.Sums == nil || b.summed == b.Reference {
		return nil
	}
	read := map[string]bool{}
	for _, id := range b.Reference.Nodes() {
		if weighted(b.Reference, id) {
			read[b.Reference.Value(b.Reference.Node(id).Inputs[0]).Name] = true
		}
	}
	var padding *graph.Padding
	if len(b.Fit) > 0 {
		padding = b.padding(b.Fit[0].Mask)
	}
	stats, err := calib.Run(ctx, b.Reference, &exec.InMemory{Samples: b.Fit}, calib.Config{Threads: b.Threads, Memory: b.memory(),
		Padding: padding,
		Only:    func(name string) bool { return read[name] }, Summed: func([32]byte) bool { return true }})
	if err != nil {
		return err
	}
	b.forwards(float64(len(b.Fit)))
	b.Sums, b.summed = stats.Sums, b.Reference
	return nil
}

// Shifts is, by operator, what a bias correction from sums adds to its output channels: what rounding the weights adds to their means,
// turned round. g has the constants that a set quantizes, reference those of the float network. Operators of which nothing is known, and
// those whose weights are not rounded, are missing.
func Shifts(reference, g *graph.Graph, set *tqc.Set, sums func(node string) *observers.InputSums) (map[graph.NodeID][]float64, error) {
	b := &Bench{Reference: reference, Graph: g, Set: set, Sums: sums}
	out := map[graph.NodeID][]float64{}
	for _, id := range g.Nodes() {
		if g.Const(g.Node(id).Input(graph.WeightInput)) == nil {
			continue
		}
		d, err := b.shift(id)
		if err != nil {
			return nil, g.ErrorAt("bias", id, err)
		}
		if d != nil {
			out[id] = d
		}
	}
	return out, nil
}

// shift is what rounding the weights of an operator adds to the mean of its output, turned round; nil where the sums are not known or the
// weights are not rounded.
func (b *Bench) shift(id graph.NodeID) ([]float64, error) {
	n := b.Graph.Node(id)
	sums, slot := b.Sums(n.Name), b.Set.Input(id, graph.WeightInput)
	if sums == nil || sums.Count == 0 || slot == tqc.NoSlot || !b.Set.Slot(slot).State().Quantizes() {
		return nil, nil
	}
	rounded, err := quantized(b.Set, slot, b.Graph.Const(n.Inputs[graph.WeightInput]))
	if err != nil {
		return nil, err
	}
	return meanShift(n, b.Reference.Const(n.Inputs[graph.WeightInput]), rounded, sums), nil
}

// meanShift is -(Wq - W) E[x] by output channel of a Conv, ConvTranspose or Gemm, E[x] from sums; nil for other operators, and where the
// sums are of another window.
func meanShift(n *graph.Node, w, rounded *tensor.Tensor, sums *observers.InputSums) []float64 {
	m, ok := matrixOf(n, w)
	taps := tensor.Count(w.Shape[min(2, len(w.Shape)):])
	if !ok || n.Op == "MatMul" || sums.Taps != taps || m.Groups*m.K() != sums.Channels*taps {
		return nil
	}
	inputs := m.K() / taps // of a group
	return m.meanShift(n, w, rounded, func(group int) []float64 {
		mean := make([]float64, m.K())
		for i := range mean {
			mean[i] = sums.Mean(i%taps, group*inputs+i/taps)
		}
		return mean
	})
}

// meanShift is -(Wq - W) E[x] by output channel, mean being E[x] of a group by column.
func (m *matrix) meanShift(n *graph.Node, w, rounded *tensor.Tensor, mean func(group int) []float64) []float64 {
	alpha := 1.0
	if n.Op == "Gemm" {
		alpha = float64(n.Alpha())
	}
	out := make([]float64, m.Groups*m.Rows())
	x, q := w.ToRowMajor().F32(), rounded.ToRowMajor().F32()
	for group := range m.Groups {
		mean := mean(group)
		for r := range m.Rows() {
			for i, e := range mean {
				at := m.At(group, r, i)
				out[group*m.Rows()+r] -= float64(alpha * float64((float64(q[at])-float64(x[at]))*e))
			}
		}
	}
	return out
}

// quantized is a constant rounded as a slot rounds it.
func quantized(set *tqc.Set, slot tqc.SlotID, t *tensor.Tensor) (*tensor.Tensor, error) {
	t = t.ToRowMajor()
	out := tensor.New(tensor.Float32, t.Shape...)
	return out, sim.Apply(out, t, &set.Slot(slot).Config, set.Params(slot), sim.Quantize)
}

package tune

import (
	"context"
	"errors"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/overlay"
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
var Analytic = Method{Name: "bias-analytic", Doc: "takes off the bias what rounding the weights does to the mean of each channel, from the statistics' sums",
	Changes: []string{"biases"}, Needs: []string{NeedsStatistics}, FromGrams: true,
	Proposer: &Proposer{Name: "bias-analytic", Trials: 1, Biases: true, Propose: predicted}}

// ErrNoSums says that a method needs sums that the statistics do not have.
var ErrNoSums = errors.New("the statistics have no sums of what operators read: calibrate anew for them, or use --method bias")

// predicted proposes what the sums predict.
func predicted(_ context.Context, l *LayerBench) ([]Proposal, error) {
	if l.Sums == nil {
		return nil, ErrNoSums
	}
	d, err := l.shift(l.Node)
	if err != nil || d == nil {
		return nil, err
	}
	return []Proposal{{By: "bias-analytic", Bias: d}}, nil
}

// shift is what rounding the weights of an operator adds to the mean of its output, turned round; nil where the sums are not known or the
// weights are not rounded.
func (b *Bench) shift(id graph.NodeID) ([]float64, error) {
	n := b.Graph.Node(id)
	sums, slot := b.Sums(n.Name), b.Set.Input(id, overlay.WeightInput)
	if sums == nil || sums.Count == 0 || slot == tqc.NoSlot || !b.Set.Slot(slot).State().Quantizes() {
		return nil, nil
	}
	w, q := b.Reference.Const(n.Inputs[1]).ToRowMajor(), b.Graph.Const(n.Inputs[1]).ToRowMajor()
	rounded := tensor.New(tensor.Float32, w.Shape...)
	if err := sim.Apply(rounded, q, &b.Set.Slot(slot).Config, b.Set.Params(slot), sim.Quantize); err != nil {
		return nil, err
	}
	return meanShift(n, w, rounded, sums), nil
}

// meanShift is -(Wq - W) E[x] by output channel of a Conv, ConvTranspose or Gemm; nil for other operators, and where the sums are of another window.
func meanShift(n *graph.Node, w, rounded *tensor.Tensor, sums *observers.InputSums) []float64 {
	mean := make([]float64, sums.Taps*sums.Channels)
	for t := range sums.Taps {
		for c := range sums.Channels {
			mean[t*sums.Channels+c] = sums.Mean(t, c)
		}
	}
	x, q := w.F32(), rounded.F32()
	switch {
	case n.Op == "Conv":
		outputs, inputs, group := w.Shape[0], w.Shape[1], int(n.AttrInt("group", 1))
		if tensor.Count(w.Shape[2:]) != sums.Taps || inputs*group != sums.Channels || outputs%group != 0 {
			return nil
		}
		out := make([]float64, outputs)
		for o := range out {
			first := o / (outputs / group) * inputs
			for i := range inputs {
				for t := range sums.Taps {
					at := (o*inputs+i)*sums.Taps + t
					out[o] -= float64((float64(q[at]) - float64(x[at])) * mean[t*sums.Channels+first+i])
				}
			}
		}
		return out
	case n.Op == "ConvTranspose":
		inputs, outputs, group := w.Shape[0], w.Shape[1], int(n.AttrInt("group", 1)) // of a group
		if tensor.Count(w.Shape[2:]) != sums.Taps || inputs != sums.Channels || inputs%group != 0 {
			return nil
		}
		out := make([]float64, outputs*group)
		for i := range inputs {
			first := i / (inputs / group) * outputs
			for o := range outputs {
				for t := range sums.Taps {
					at := (i*outputs+o)*sums.Taps + t
					out[first+o] -= float64((float64(q[at]) - float64(x[at])) * mean[t*sums.Channels+i])
				}
			}
		}
		return out
	case n.Op == "Gemm":
		k, m, step, next := w.Shape[0], w.Shape[1], w.Shape[1], 1 // [k, m]
		if n.AttrInt("transB", 0) != 0 {
			k, m, step, next = w.Shape[1], w.Shape[0], 1, w.Shape[1]
		}
		if k != sums.Channels || sums.Taps != 1 {
			return nil
		}
		alpha := float64(n.AttrFloat("alpha", 1))
		out := make([]float64, m)
		for o := range out {
			for i := range k {
				at := o*next + i*step
				out[o] -= float64(alpha * float64((float64(q[at])-float64(x[at]))*mean[i]))
			}
		}
		return out
	}
	return nil
}

package tune

import (
	"context"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Distill learns a network as one block: the float network is the teacher, and no labels are needed (self-distillation).
var Distill = Method{Name: "distill",
	Doc:     "learns rounding, biases and scales of the whole network, from the float network's outputs; takes long, not in auto",
	Changes: []string{"weights", "biases", "scales"}, Needs: []string{"data", "gradients"}, OnlyNamed: true, Run: distill}

// distill is blockwise with the whole network as the one block. What is met is the output, or the class scores that its Softmax reads.
func distill(ctx context.Context, b *Bench) (*Report, error) {
	l := Layer{Node: "the whole network", Tried: []Step{}}
	k, err := b.whole()
	if err != nil {
		return nil, err
	}
	if k == nil {
		l.Why = "not tried: there is more than one output, or none of floats, or no operator with quantized weights"
		return &Report{Layers: []Layer{l}}, nil
	}
	b.ready()
	p, err := b.passage([]*block{k})
	if err == nil {
		err = p.pass(ctx, k, &l, analysis.Trials(1), true)
	}
	if err != nil {
		return nil, err
	}
	r := &Report{Layers: []Layer{l}}
	b.tell(1, 1, r.kept())
	return r, nil
}

// whole is the network as a block, nil where no one tensor is what it computes.
func (b *Bench) whole() (*block, error) {
	all, err := layers(b.Graph, b.Set)
	if err != nil || len(b.Graph.Outputs) != 1 {
		return nil, err
	}
	k := &block{exit: b.Graph.Outputs[0], all: true}
	for _, l := range all {
		if l.weight != tqc.NoSlot {
			k.layers = append(k.layers, l)
		}
	}
	if n := b.Graph.ScoresAt(k.exit); n != nil {
		k.exit = n.Input(0)
	}
	if len(k.layers) == 0 || b.Graph.Value(k.exit).DType != tensor.Float32 || b.Graph.Producer(k.exit) == graph.NoNode {
		return nil, nil
	}
	k.inputs = b.entries(graph.NoValue, k.exit)
	return k, nil
}

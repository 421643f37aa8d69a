package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Distill learns a network as one block: the float network is the teacher, and no labels are needed (self-distillation).
var Distill = Method{Name: "distill",
	Doc:     "learns rounding, biases, norms and scales of the whole network, from the float network's outputs; takes long, in auto as block",
	Changes: []string{"weights", "biases", "scales"}, Needs: []string{"data", "gradients"}, OnlyNamed: true, Run: distill,
	Cost: func(b *Bench) (float64, error) {
		k, err := b.whole()
		if err != nil || k == nil {
			return 0, err
		}
		return b.lessonWork(k, len(b.Fit)), nil
	},
	Learns: func(b *Bench) (int64, error) {
		k, err := b.whole()
		if err != nil || k == nil {
			return 0, err
		}
		return b.learningBytes(k), nil
	}}

// distill is blockwise with the whole network as the one block. What is met is each output of floats, or the class scores that its Softmax
// reads.
func distill(ctx context.Context, b *Bench) (*Report, error) {
	l := Layer{Node: "the whole network", Tried: []Step{}}
	k, err := b.whole()
	if err != nil {
		return nil, err
	}
	if k == nil {
		l.Why = "not tried: there is no output of floats, or no operator with quantized weights"
		return &Report{Layers: []Layer{l}}, nil
	}
	if b.Loss == ClassLoss && !slices.ContainsFunc(k.scores, func(n *graph.Node) bool { return n != nil }) {
		l.Why = "not tried: no output is class scores, which the loss kl needs"
		return &Report{Layers: []Layer{l}}, nil
	}
	b.ready()
	p, err := b.passage([]*block{k})
	if err == nil {
		p.ahead = b.lessonWork(k, p.fitting)
		err = p.pass(ctx, k, &l, analysis.Trials(1), true)
	}
	if err != nil {
		return nil, err
	}
	r := &Report{Layers: []Layer{l}}
	b.tell(1, 1, r.kept())
	return r, nil
}

// whole is the network as a block, nil where nothing of floats is what it computes.
func (b *Bench) whole() (*block, error) {
	all, err := layers(b.Graph, b.Set)
	if err != nil {
		return nil, err
	}
	k := &block{all: true}
	for _, l := range all {
		if l.weight != tqc.NoSlot {
			k.layers = append(k.layers, l)
		}
	}
	for _, v := range b.Graph.Outputs {
		n := b.Graph.ScoresAt(v)
		if n != nil {
			v = n.Input(0)
		}
		if b.Graph.Value(v).DType != tensor.Float32 || b.Graph.Producer(v) == graph.NoNode || slices.Contains(k.exits, v) {
			continue
		}
		k.exits = append(k.exits, v)
		k.scores = append(k.scores, b.classes(v, n))
	}
	if len(k.layers) == 0 || len(k.exits) == 0 {
		return nil, nil
	}
	k.inputs = b.entries(graph.NoValue, k.exits)
	return k, nil
}

// classes is the Softmax of an exit where the loss is that of its probabilities; nil elsewhere. The only output of a network is scores
// without a Softmax too, if it is a matrix: a row for each sample.
func (b *Bench) classes(v graph.ValueID, softmax *graph.Node) *graph.Node {
	switch {
	case b.Loss != ClassLoss || softmax != nil && softmax.Op == "ArgMax":
		return nil
	case softmax == nil && len(b.Graph.Outputs) == 1 && len(b.Graph.Value(v).Shape) == 2:
		return &graph.Node{Op: "Softmax"}
	}
	return softmax
}

// norm is what a normalization multiplies with or adds, learnt beside the weights.
type norm struct {
	node  graph.NodeID // of the bench's graph
	input int
	shift
}

// normalizations feeds the scales and biases of normalizations that are constants of floats. What is much is a tenth of a scale, or of
// its mean where that is more.
func (w *lessonWriter) normalizations() {
	for _, id := range w.G.Nodes() {
		n := w.G.Node(id)
		own, ok := w.p.Graph.LookupNode(n.Name)
		if spec := n.Spec(); !ok || spec == nil || spec.Kind != graph.KindNormalization || !n.IsONNX() {
			continue
		}
		scale := w.G.Const(n.Input(1))
		for i := 1; i <= 2 && scale != nil && scale.DType == tensor.Float32; i++ {
			s := w.p.Set.Input(own, i)
			t := w.G.Const(n.Input(i))
			_, sole := w.p.Graph.SoleUse(w.p.Graph.Node(own).Input(i))
			if t == nil || t.DType != tensor.Float32 || t.Len() != scale.Len() || !sole || s != tqc.NoSlot && w.p.Set.Slot(s).State().Quantizes() {
				continue
			}
			b := &norm{node: own, input: i, shift: shift{shape: t.Shape, value: slices.Clone(t.F32()), unit: make([]float32, t.Len()),
				mover: newMover(w.p.Optimizer, t.Len())}}
			mean := 0.0
			for _, x := range scale.F32() {
				mean += math.Abs(float64(x)) / float64(scale.Len())
			}
			for c, x := range scale.F32() {
				b.unit[c] = float32(max(math.Abs(float64(x)), mean) / 10)
			}
			v := w.fed(fmt.Sprint(fedNorm, len(w.norms)), tensor.Float32, graph.Static(t.Shape...))
			w.G.SetInput(id, i, v)
			w.norms, w.rest = append(w.norms, b), append(w.rest, v)
		}
	}
}

package rewrite

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// SplitChannels doubles output channels of convolution At, those that Groups lists in one group: their copies stand behind all others, and
// the readers' weights of both are halved. (Zhao et al. 2019, "Improving Neural Network Quantization without Retraining using Outlier
// Channel Splitting", equation 3; PPQ's ChannelwiseSplit.) Between the two may stand what keeps channels apart.
var SplitChannels = Kind{Name: "split-channels",
	Doc: "doubles channels and halves the weights of their readers, so that large weights get small", Apply: applySplitChannels}

// CanSplit reports whether output channels of a convolution can be doubled, and the readers whose weights are then halved, in graph order.
func CanSplit(g *graph.Graph, id graph.NodeID) (readers []*Reader, channels int, ok bool) {
	n := g.Node(id)
	if n.Op != "Conv" || !n.IsONNX() || n.Conv().Group != 1 {
		return nil, 0, false
	}
	if channels = dim(g, n.Output(0), 1); channels < 0 {
		return nil, 0, false
	}
	r, err := reorderable(g, n.Output(0), iota(0, channels), nil)
	if err != nil {
		return nil, 0, false
	}
	order, err := g.Order()
	if err != nil {
		return nil, 0, false
	}
	for _, id := range order {
		if in := r.inputs[id]; in != nil {
			if len(in) != channels {
				return nil, 0, false // a depthwise convolution between has several outputs per input
			}
			readers = append(readers, ReaderOf(g, id))
		}
	}
	return readers, channels, len(readers) > 0
}

func applySplitChannels(g *graph.Graph, s *Step) error {
	id, ok := g.LookupNode(s.At)
	if !ok {
		return errors.New("there is no such node")
	}
	readers, n, ok := CanSplit(g, id)
	if !ok {
		return errors.New("its channels cannot be doubled")
	}
	if len(s.Groups) != 1 || len(s.Groups[0]) == 0 {
		return fmt.Errorf("%d lists of channels: there has to be one, which is not empty", len(s.Groups))
	}
	times := slices.Repeat([]float64{1}, n)
	for _, c := range s.Groups[0] {
		if c < 0 || c >= n || times[c] > 1 {
			return fmt.Errorf("channel %d: every channel from 0 to %d stands there once at most", c, n-1)
		}
		times[c]++
	}
	order := append(iota(0, n), s.Groups[0]...)
	r, err := reorderable(g, g.Node(id).Output(0), order, nil)
	if err != nil {
		return err
	}
	half := make([]float64, n)
	for c := range half {
		half[c] = 1 / times[c]
	}
	for _, reader := range readers {
		if err := reader.matrix.scaleWeight(g, nil, half); err != nil {
			return err
		}
	}
	r.apply(g)
	for v, order := range r.orders {
		shape := slices.Clone(g.Value(v).Shape)
		shape[1] = graph.Dim{N: int64(len(order))}
		g.Value(v).Shape = shape
	}
	for _, node := range g.Nodes() {
		if n := g.Node(node); r.operands[node] != nil && n.Op == "Conv" {
			n.SetAttr(graph.Int("group", int64(len(r.orders[n.Input(0)]))))
		}
	}
	return nil
}

// SplitWeight makes two operators of At (Conv, ConvTranspose, Gemm, MatMul), whose results are added: one with half of each weight that is
// larger than the one element of vector "threshold", and nothing else, and one with the rest. (PPQ's HorizontalLayerSplit,
// in its balanced form.)
var SplitWeight = Kind{Name: "split-weight", Doc: "makes two operators of one, so that large weights are halved", Apply: applySplitWeight}

func applySplitWeight(g *graph.Graph, s *Step) error {
	id, ok := g.LookupNode(s.At)
	if !ok {
		return errors.New("there is no such node")
	}
	m, err := matrixOf(g, id)
	if err != nil {
		return err
	}
	threshold := s.Vectors["threshold"]
	if len(threshold) != 1 || !(threshold[0] > 0) {
		return errors.New("the threshold is not one positive number")
	}
	large, rest := tensor.New(tensor.Float32, m.weight.Shape...), tensor.New(tensor.Float32, m.weight.Shape...)
	found := false
	for i, x := range m.weight.F32() {
		if rest.F32()[i] = x; math.Abs(float64(x)) > float64(threshold[0]) {
			large.F32()[i] = x / 2
			rest.F32()[i], found = x-x/2, true
		}
	}
	if !found {
		return fmt.Errorf("no weight is larger than %g", threshold[0])
	}
	n := g.Node(id)
	name, y := n.Name, n.Output(0)
	second := graph.Node{Name: g.FreshName(name + "/large"), Op: n.Op, Domain: n.Domain, Attrs: slices.Clone(n.Attrs),
		Inputs: slices.Clone(n.Inputs[:2])}
	second.Inputs[m.at] = g.AddConst(g.Value(n.Inputs[m.at]).Name+"/large", large)
	g.OwnConst(id, m.at, rest)
	var parts []graph.ValueID
	for _, suffix := range []string{"/rest", "/large"} {
		v, err := g.AddValue(graph.Value{Name: g.FreshName(g.Value(y).Name + suffix), DType: g.Value(y).DType, Shape: g.Value(y).Shape})
		if err != nil {
			return err
		}
		parts = append(parts, v)
	}
	if err := g.SetOutput(id, 0, parts[0]); err != nil {
		return err
	}
	second.Outputs = []graph.ValueID{parts[1]}
	if _, err := g.AddNode(second); err != nil {
		return err
	}
	_, err = g.AddNode(graph.Node{Name: g.FreshName(name + "/sum"), Op: "Add", Inputs: parts, Outputs: []graph.ValueID{y}})
	return err
}

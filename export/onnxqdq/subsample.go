package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

// subsample lets convolutions of one element with strides read what a MaxPool of one element leaves of a tensor: the same integers, at the
// same scale. OpenVINO (2026.4, its pass StridesOptimization) takes strides that all readers of a tensor have out of such convolutions and
// puts the MaxPool between DequantizeLinear and them, where its low-precision transformations do not find the integers any more: the
// convolutions are float then. A pair behind the MaxPool keeps them, and the tensor is read once.
func (b *builder) subsample() error {
	if !b.t.Export.SubsampleFirst {
		return nil
	}
	for _, id := range b.g.Nodes() {
		strides := skipped(b.g, id)
		if strides == nil {
			continue
		}
		if err := b.subsampled(id, strides); err != nil {
			return err
		}
	}
	return nil
}

// subsampled puts a MaxPool and a pair between a DequantizeLinear and its readers.
func (b *builder) subsampled(id graph.NodeID, strides []int64) error {
	dq := *b.g.Node(id)
	q := *b.g.Node(b.g.Producer(dq.Inputs[0]))
	readers := slices.Clone(b.g.Uses(dq.Outputs[0]))
	name := b.g.Value(q.Inputs[0]).Name + "_subsampled"
	ones := make([]int64, len(strides))
	for i := range ones {
		ones[i] = 1
	}
	at := dq.Outputs[0]
	for _, n := range []graph.Node{
		{Op: "MaxPool", Inputs: []graph.ValueID{at}, Attrs: []graph.Attr{graph.Ints("kernel_shape", ones...), graph.Ints("strides", strides...)}},
		{Op: q.Op, Inputs: q.Inputs, Attrs: q.Attrs},
		{Op: dq.Op, Inputs: dq.Inputs, Attrs: dq.Attrs},
	} {
		val := graph.Value{Name: b.g.FreshName(name + "_" + n.Op), DType: tensor.Float32}
		if n.Op == q.Op {
			val.DType = b.g.Value(dq.Inputs[0]).DType
		}
		to, err := b.g.AddValue(val)
		if err != nil {
			return err
		}
		n.Name, n.Inputs, n.Outputs = b.g.FreshName(val.Name+"_node"), append([]graph.ValueID{at}, n.Inputs[1:]...), []graph.ValueID{to}
		if _, err := b.g.AddNode(n); err != nil {
			return err
		}
		at = to
	}
	for _, u := range readers {
		b.g.SetInput(u.Node, u.Index, at)
		b.g.Node(u.Node).SetAttr(graph.Ints("strides", ones...))
	}
	return nil
}

// skipped returns the strides with which all readers of what a DequantizeLinear of computed integers gives are convolutions of one element;
// nil where they are not, or skip nothing.
func skipped(g *graph.Graph, id graph.NodeID) []int64 {
	n := g.Node(id)
	if !is(n, dequantizeLinear) || g.Producer(n.Input(0)) == graph.NoNode || !is(g.Node(g.Producer(n.Input(0))), quantizeLinear) {
		return nil
	}
	v := n.Outputs[0]
	var strides []int64
	if g.IsOutput(v) || g.Captured(v) {
		return nil
	}
	for _, u := range g.Uses(v) {
		own := pointStrides(g, g.Node(u.Node))
		if own == nil || u.Index != graph.DataInput || strides != nil && !slices.Equal(own, strides) {
			return nil
		}
		strides = own
	}
	return strides
}

// pointStrides returns the strides of a convolution of one element without padding; nil for other operators, and where they are 1.
func pointStrides(g *graph.Graph, n *graph.Node) []int64 {
	if !is(n, "Conv") {
		return nil
	}
	strides, w := n.AttrInts("strides"), g.Value(n.Input(graph.WeightInput)).Shape
	some := func(list []int64, not int64) bool {
		return slices.ContainsFunc(list, func(x int64) bool { return x != not })
	}
	if !some(strides, 1) || some(n.AttrInts("pads"), 0) || len(w) != len(strides)+2 {
		return nil
	}
	for _, d := range w[2:] {
		if !d.Known() || d.N != 1 {
			return nil
		}
	}
	return strides
}

var subsampleRule = rule{Name: "subsample", Doc: "convolutions of one element do not skip elements that no other operator reads: the " +
	"engine would do so between the pair and them, in float",
	Fix:     "put a MaxPool of one element with these strides, and a pair of the same scale, in front of them",
	applies: func(t *target.Target) bool { return t.Export.SubsampleFirst },
	check: func(c *checker) {
		for _, id := range c.order {
			if s := skipped(c.g, id); s != nil {
				c.report(c.g.Node(id), "all that read it are convolutions of one element with strides %v", s)
			}
		}
	}}

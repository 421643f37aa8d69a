package exporttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Constant changes the first constant whose name ends so.
func Constant(suffix string, change func(x *tensor.Tensor) *tensor.Tensor) func(t testing.TB, dir string) {
	return EditModel(func(t testing.TB, g *graph.Graph) {
		for _, v := range g.Values() {
			if x := g.Const(v); x != nil && strings.HasSuffix(g.Value(v).Name, suffix) {
				g.SetConst(v, change(x.Clone()))
				return
			}
		}
		require.Fail(t, "no constant "+suffix)
	})
}

// Moved adds to the first code above 3, or to the first of all.
func Moved(by int32) func(x *tensor.Tensor) *tensor.Tensor {
	return func(x *tensor.Tensor) *tensor.Tensor {
		codes := slices.Clone(x.Integers())
		codes[max(0, slices.IndexFunc(codes, func(q int32) bool { return q > 3 }))] += by
		return x.WithIntegers(codes)
	}
}

// Longer multiplies the first number by a little more than 1.
func Longer(x *tensor.Tensor) *tensor.Tensor {
	x.F32()[0] *= 1.0001
	return x
}

// Rewired are faults of what a model of ONNX computes: all numbers stay as they are.
func Rewired(options map[string]string) []Damaged {
	return []Damaged{
		{What: "an attribute", Options: options, Plant: EditModel(func(t testing.TB, g *graph.Graph) {
			for _, id := range g.Nodes() {
				if n := g.Node(id); strings.Contains(n.Op, "Conv") {
					n.SetAttr(graph.Ints("pads", append([]int64{2}, n.AttrInts("pads")...)...))
					return
				}
			}
			require.Fail(t, "no convolution")
		})},
		{What: "an attribute that is missing", Options: options, Plant: EditModel(func(t testing.TB, g *graph.Graph) {
			for _, id := range g.Nodes() {
				if n := g.Node(id); n.Op != "QuantizeLinear" && n.Op != "DequantizeLinear" && len(n.Attrs) > 0 {
					n.Attrs = n.Attrs[1:]
					return
				}
			}
			t.Skip("does not apply: no attributes")
		})},
	}
}

// Branched is a fault inside of the first graph that is an attribute: its first node is another operator.
func Branched(options map[string]string) Damaged {
	return Damaged{What: "what a branch computes", Options: options, Plant: EditModel(func(t testing.TB, g *graph.Graph) {
		for _, id := range g.Nodes() {
			for _, a := range g.Node(id).Attrs {
				if a.Kind == graph.AttrGraph {
					a.G.Node(a.G.Nodes()[0]).Op = "Neg"
					return
				}
			}
		}
		require.Fail(t, "no graph")
	})}
}

// Crossed is a fault of what operators read: the last reads an input of the model.
func Crossed(options map[string]string) Damaged {
	return Damaged{What: "what an operator reads", Options: options, Plant: EditModel(func(_ testing.TB, g *graph.Graph) {
		list := g.Nodes()
		g.SetInput(list[len(list)-1], 0, g.Inputs[0])
	})}
}

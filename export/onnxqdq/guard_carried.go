package onnxqdq

import "qwb/graph"

// carried is what dequantizes before a tensor: any, the scales of a product that no pair rounded, and those along its last axis, or along
// another than they had.
type carried struct{ any, product, columns bool }

// carriers are the operators behind which the transformations move what dequantizes; those that are marked give the axes other places.
// It is their list, not of those that hand elements on (graph.Node.HandsOn).
var carriers = map[string]bool{"Relu": false, "LeakyRelu": false, "PRelu": false, "Clip": false, "Add": false, "Sub": false, "Mul": false,
	"Identity": false, "Dropout": false, "MaxPool": false, "AveragePool": false, "Pad": false, "Slice": false, "Split": false, "Concat": false,
	"GlobalAveragePool": false, "GlobalMaxPool": false, "Resize": false, "Div": false, "InstanceNormalization": false,
	"LayerNormalization": false, "MeanVarianceNormalization": false,
	"Transpose": true, "Reshape": true, "Flatten": true, "Squeeze": true, "Unsqueeze": true, "Gather": true, "DepthToSpace": true,
	"SpaceToDepth": true, "ReduceMean": true, "ReduceMax": true, "ReduceMin": true, "ReduceSum": true, "Expand": true, "Tile": true}

func carries(g *graph.Graph, v graph.ValueID, known map[graph.ValueID]carried) (c carried) {
	if v == graph.NoValue || g.Const(v) != nil || g.Producer(v) == graph.NoNode {
		return carried{}
	}
	if c, ok := known[v]; ok {
		return c
	}
	defer func() { known[v] = c }()
	n := g.Node(g.Producer(v))
	turns, through := carriers[n.Op]
	switch {
	case is(n, dequantizeLinear):
		return carried{any: true}
	case is(n, "Conv", "ConvTranspose", "MatMul", "Gemm"):
		for _, x := range n.Inputs[:min(2, len(n.Inputs))] {
			p := g.Producer(x)
			c.any = c.any || p != graph.NoNode && is(g.Node(p), dequantizeLinear)
		}
		return carried{c.any, c.any, c.any && is(n, "MatMul", "Gemm")}
	case !through || !n.IsONNX():
		return carried{}
	}
	for _, x := range n.Inputs {
		from := carries(g, x, known)
		c = carried{c.any || from.any, c.product || from.product, c.columns || from.columns || turns && from.product}
	}
	if is(n, "InstanceNormalization", "LayerNormalization", "MeanVarianceNormalization") {
		return carried{any: c.any} // scales of channels stay in front of it
	}
	return c
}

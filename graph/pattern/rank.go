package pattern

import "qwb/graph"

// Rank returns the number of dimensions of v, as far as it follows from recorded shapes, constants and the operators that
// compute v: Transpose, Flatten, convolutions and operators that keep or broadcast their inputs. It does not run
// shape inference; false means unknown.
func Rank(g *graph.Graph, v graph.ValueID) (int, bool) { return rank(g, v, 64) }

// rank gives up after depth operators, which keeps broadcasts of broadcasts cheap as well.
func rank(g *graph.Graph, v graph.ValueID, depth int) (int, bool) {
	if v == graph.NoValue || depth == 0 {
		return 0, false
	}
	if s := g.Value(v).Shape; s != nil {
		return len(s), true
	}
	if c := g.Const(v); c != nil {
		return len(c.Shape), true
	}
	id := g.Producer(v)
	if id == graph.NoNode {
		return 0, false
	}
	n := g.Node(id)
	switch n.Op {
	case "Transpose":
		if perm := n.AttrInts("perm"); perm != nil {
			return len(perm), true
		}
		return rank(g, n.Input(0), depth-1)
	case "Flatten", "Gemm":
		return 2, true
	case "Conv", "ConvTranspose":
		if r, ok := rank(g, n.Input(1), depth-1); ok {
			return r, true
		}
		return rank(g, n.Input(0), depth-1)
	case "Reshape":
		if c := g.Const(n.Input(1)); c != nil {
			return c.Len(), true
		}
		if s := n.AttrInts("shape"); s != nil {
			return len(s), true
		}
		if s := g.Value(n.Input(1)).Shape; len(s) == 1 && s[0].Known() {
			return int(s[0].N), true
		}
	case "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid", "HardSwish", "Elu", "Selu", "Softplus", "Gelu", "Mish",
		"Identity", "Dropout", "Cast", "Softmax", "LogSoftmax", "BatchNormalization", "InstanceNormalization", "LayerNormalization",
		"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Pad", "Sqrt", "Exp", "Log", "Neg", "Abs", "Reciprocal",
		"Erf", "Slice", "Resize", "Upsample", "Concat", "Split", "LRN", "QuantizeLinear", "DequantizeLinear":
		return rank(g, n.Input(0), depth-1)
	case "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "PRelu", "Where":
		most := 0
		for _, in := range n.Inputs {
			r, ok := rank(g, in, depth/2)
			if !ok {
				return 0, false
			}
			most = max(most, r)
		}
		return most, len(n.Inputs) > 0
	case "MatMul":
		a, okA := rank(g, n.Input(0), depth/2)
		b, okB := rank(g, n.Input(1), depth/2)
		if okA && okB && a >= 2 && b >= 2 {
			return max(a, b), true
		}
	case "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin":
		if n.AttrInt("keepdims", 1) == 1 {
			return rank(g, n.Input(0), depth-1)
		}
	}
	return 0, false
}

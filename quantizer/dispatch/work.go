package dispatch

import "qwb/graph"

// elements returns the size of a tensor. Dimensions that are not known count as 1; known is false if one other than the first (the
// batch) is not.
func elements(g *graph.Graph, v graph.ValueID) (n int64, known bool) {
	return count(g.Value(v).Shape)
}

func count(s graph.Shape) (n int64, known bool) {
	n, known = 1, s != nil
	for i, d := range s {
		if d.Known() {
			n *= d.N
		} else if i > 0 {
			known = false
		}
	}
	return n, known
}

// MACs returns the multiply-accumulates of a node as graph.MACs does, and for Conv, ConvTranspose, Gemm and MatMul also where
// dimensions are not known. Those count as 1 (a batch of one); known is false if one other than the batch was not known.
func MACs(g *graph.Graph, id graph.NodeID) (macs int64, known bool) {
	if macs, known = g.MACs(id); known {
		return macs, true
	}
	n := g.Node(id)
	if n.Domain != "" {
		return 0, false
	}
	shape := func(v graph.ValueID) graph.Shape {
		if v == graph.NoValue {
			return nil
		}
		return g.Value(v).Shape
	}
	switch n.Op {
	case "Conv": // every output element sums over C/group and the kernel
		return perElement(shape(n.Outputs[0]), tail(shape(n.Input(1)), 1))
	case "ConvTranspose": // every input element is spread over M/group and the kernel
		return perElement(shape(n.Input(0)), tail(shape(n.Input(1)), 1))
	case "Gemm":
		a := shape(n.Input(0))
		k := 1
		if n.AttrInt("transA", 0) != 0 {
			k = 0
		}
		return perElement(shape(n.Outputs[0]), at(a, k))
	case "MatMul":
		a := shape(n.Input(0))
		return perElement(shape(n.Outputs[0]), at(a, len(a)-1))
	}
	return 0, false
}

func perElement(outer, inner graph.Shape) (int64, bool) {
	a, ka := count(outer)
	b, kb := count(inner)
	return a * b, ka && kb
}

// tail returns the dimensions from i on, nil if there are fewer.
func tail(s graph.Shape, i int) graph.Shape {
	if len(s) < i {
		return nil
	}
	return s[i:]
}

// at returns dimension i as a shape of rank 1, nil if there is none.
func at(s graph.Shape, i int) graph.Shape {
	if i < 0 || i >= len(s) {
		return nil
	}
	return s[i : i+1]
}

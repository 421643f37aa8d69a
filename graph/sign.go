package graph

import "slices"

// NeverNegative reports whether no element of a float value is below 0, as far as the operators say that compute it: Softmax, Relu and
// others whose results have no sign, limits from 0 on, what moves, selects, adds or multiplies such numbers, and constants. NaN counts as
// no sign.
func (g *Graph) NeverNegative(v ValueID) bool {
	return g.neverNegative(v, map[ValueID]bool{})
}

func (g *Graph) neverNegative(v ValueID, seen map[ValueID]bool) bool {
	if is, known := seen[v]; known {
		return is
	}
	seen[v] = false
	seen[v] = g.findNeverNegative(v, seen)
	return seen[v]
}

func (g *Graph) findNeverNegative(v ValueID, seen map[ValueID]bool) bool {
	if t := g.Const(v); t != nil {
		return !slices.ContainsFunc(t.F32(), func(x float32) bool { return x < 0 })
	}
	p := g.Producer(v)
	if p == NoNode || !g.Node(p).IsONNX() {
		return false
	}
	n, from := g.Node(p), 0
	switch n.Op {
	case "Softmax", "Relu", "Sigmoid", "HardSigmoid", "Abs", "Exp", "Sqrt", "Softplus", "ReduceL1", "ReduceL2", "ReduceSumSquare":
		return true
	case "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum":
		return g.neverNegative(n.Inputs[0], seen)
	case "Clip":
		lo, hi, known := LimitsOf(n, g.Opset(""), g.Const)
		return known && hi >= 0 && (lo >= 0 || g.neverNegative(n.Inputs[0], seen))
	case "Max":
		return slices.ContainsFunc(n.Inputs, func(x ValueID) bool { return g.neverNegative(x, seen) })
	case "Where":
		from = 1
	case "Add", "Concat", "Div", "Min", "Mul", "Sum":
	default:
		return g.Passive(p) && g.neverNegative(n.Inputs[0], seen)
	}
	return !slices.ContainsFunc(n.Inputs[from:], func(x ValueID) bool { return !g.neverNegative(x, seen) })
}

package passes

import (
	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// ConstantChains merges neighbouring sums with constants, neighbouring products with constants, and puts products before sums.
var ConstantChains = Pass{
	Name: "constant-chains",
	Doc:  "Merges chains of Add, Sub, Mul and Div with constants into one Mul and one Add.",
	sweep: each(func(c *Context, id graph.NodeID) (*Patch, error) {
		outer, ok := constantOperation(c.G, id)
		if !ok {
			return nil, nil
		}
		inner, ok := constantOperation(c.G, c.G.Producer(outer.x))
		if !ok {
			return nil, nil
		}
		inner.load(c.G)
		outer.load(c.G)
		return mergeChain(c, inner, outer)
	}),
}

// operation is x*k (a product) or x+k, with k in float64 once it is loaded.
type operation struct {
	id      graph.NodeID
	op      string
	product bool
	x, c, y graph.ValueID // c is the constant
	k       []float64
	shape   []int
}

// constantOperation finds Mul, Div, Add or Sub of a computed value and a float32 constant, which is not read yet.
func constantOperation(g *graph.Graph, id graph.NodeID) (operation, bool) {
	if !g.Alive(id) {
		return operation{}, false
	}
	n := g.Node(id)
	switch n.Op {
	case "Div", "Sub", "Add", "Mul":
	default:
		return operation{}, false
	}
	if len(n.Inputs) != 2 || !n.IsONNX() || legacyBroadcast(g, n) {
		return operation{}, false
	}
	x, c := n.Input(0), n.Input(1)
	if g.Const(c) == nil && (n.Op == "Add" || n.Op == "Mul") {
		x, c = c, x
	}
	t := g.Const(c)
	if t == nil || t.DType != tensor.Float32 || g.Const(x) != nil {
		return operation{}, false
	}
	return operation{id: id, op: n.Op, product: n.Op == "Mul" || n.Op == "Div", x: x, c: c, y: n.Outputs[0], shape: t.Shape}, true
}

// load reads the constant: a quotient by it is a product with its inverse, a difference a sum.
func (o *operation) load(g *graph.Graph) {
	o.k, _ = float64s(g.Const(o.c))
	switch o.op {
	case "Div":
		o.k = inverse(o.k)
	case "Sub":
		for i, v := range o.k {
			o.k[i] = -v
		}
	}
}

func mergeChain(c *Context, inner, outer operation) (*Patch, error) {
	if !inner.product && outer.product && !worthSwapping(c.G, inner.x) {
		return nil, nil
	}
	if inner.product && !outer.product {
		return nil, nil // the normal form
	}
	if c.inIdiom(inner.id) || c.inIdiom(outer.id) {
		return nil, decline("%q or %q is part of an operator written out", c.G.Node(inner.id).Name, c.G.Node(outer.id).Name)
	}
	combine := func(a, b float64) float64 { return a * b }
	if !inner.product && !outer.product {
		combine = func(a, b float64) float64 { return a + b }
	}
	k, shape, ok := broadcast(inner.k, inner.shape, outer.k, outer.shape, combine)
	if !ok {
		return nil, decline("the constants %v and %v do not combine into one as small", inner.shape, outer.shape)
	}
	merged := round(k, shape...)
	if err := finite(merged); err != nil {
		return nil, err
	}
	last := c.G.Node(outer.id)
	p := &Patch{}
	p.Drop(inner.id, outer.id)
	x := inner.x
	op := "Add"
	switch {
	case inner.product:
		p.What, op = "two constant factors are one", "Mul"
	case !outer.product:
		p.What = "two constant terms are one"
	default:
		p.What = "factor before term"
		x = p.Temp(last.Name+"/Mul", inner.y)
		factor := round(outer.k, outer.shape...)
		if err := finite(factor); err != nil {
			return nil, err
		}
		p.Add(graph.Node{Name: last.Name + "/Mul", Op: "Mul", Outputs: []graph.ValueID{x},
			Inputs: []graph.ValueID{inner.x, p.Const(last.Name+".factor", factor)}})
	}
	p.Add(graph.Node{Name: last.Name, Op: op, Doc: last.Doc, Outputs: last.Outputs,
		Inputs: []graph.ValueID{x, p.Const(last.Name+".constant", merged)}})
	return p, nil
}

// worthSwapping reports whether a factor moved before a sum meets something that takes it in: weights or another factor.
func worthSwapping(g *graph.Graph, x graph.ValueID) bool {
	if op, ok := constantOperation(g, g.Producer(x)); ok && op.product {
		return true
	}
	_, ok := weightedBefore.Match(g, g.Producer(x))
	return ok
}

var weightedBefore = pattern.MustParse("x = " + weightedOps + "(a, const w, b?)")

// broadcast combines two constants elementwise. It refuses a result larger than both.
func broadcast(a []float64, as []int, b []float64, bs []int, combine func(a, b float64) float64) ([]float64, []int, bool) {
	rank := max(len(as), len(bs))
	shape, stepA, stepB := make([]int, rank), make([]int, rank), make([]int, rank)
	strideA, strideB := 1, 1
	for i := rank - 1; i >= 0; i-- {
		da, db := 1, 1
		if at := i - rank + len(as); at >= 0 {
			da = as[at]
		}
		if at := i - rank + len(bs); at >= 0 {
			db = bs[at]
		}
		if da != db && da != 1 && db != 1 {
			return nil, nil, false
		}
		shape[i] = max(da, db)
		if da != 1 {
			stepA[i] = strideA
		}
		if db != 1 {
			stepB[i] = strideB
		}
		strideA, strideB = strideA*da, strideB*db
	}
	n := tensor.Count(shape)
	if n > max(len(a), len(b)) || len(a) == 0 || len(b) == 0 {
		return nil, nil, false
	}
	out := make([]float64, n)
	for k := range out {
		ia, ib, rest := 0, 0, k
		for i := rank - 1; i >= 0; i-- {
			at := rest % shape[i]
			rest /= shape[i]
			ia, ib = ia+at*stepA[i], ib+at*stepB[i]
		}
		out[k] = combine(a[ia], b[ib])
	}
	return out, shape, true
}

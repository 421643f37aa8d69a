package graph

import "math/bits"

// MACs returns the multiply-accumulates that a node does for one sample, by the shapes recorded in the graph: a symbol that is
// the leading dimension of a graph input counts as 1. It returns false if other dimensions are open or the count does not fit.
// Operators that do not multiply and accumulate have 0.
func (g *Graph) MACs(id NodeID) (int64, bool) {
	dims, none := g.macDims(id)
	if none {
		return 0, true
	}
	if open, _ := openDims(dims); dims == nil || open {
		return 0, false
	}
	return product(dims)
}

// MACsAtLeast is MACs for callers that need a number even if shapes are open: an open dimension counts as 1. known is false if
// a dimension other than the leading one is open. The result is 0 if a rank is unknown or the count does not fit.
func (g *Graph) MACsAtLeast(id NodeID) (macs int64, known bool) {
	dims, none := g.macDims(id)
	if none {
		return 0, true
	}
	_, inner := openDims(dims)
	macs, fits := product(dims)
	if dims == nil || !fits {
		return 0, false
	}
	return macs, !inner
}

// macDims lists the dimensions whose product is the number of multiply-accumulates of one sample: nil if a rank is not known.
// none: the operator does not multiply and accumulate.
func (g *Graph) macDims(id NodeID) (dims Shape, none bool) {
	n := &g.nodes[id]
	s := n.Spec()
	if s == nil || s.MACs == nil {
		return nil, true
	}
	batch := map[string]int64{}
	for _, v := range g.Inputs {
		if s := g.values[v].Shape; len(s) > 0 && s[0].Symbol != "" {
			batch[s[0].Symbol] = 1
		}
	}
	c := &InferCtx{Node: n, Opset: g.Opset(n.Domain), in: make([]InferInput, len(n.Inputs)), out: make([]InferOutput, len(n.Outputs))}
	for i, v := range n.Inputs {
		if v != NoValue {
			val := &g.values[v]
			c.in[i] = InferInput{Present: true, DType: val.DType, Shape: val.Shape.bind(batch), Tensor: val.Const}
		}
	}
	for i, v := range n.Outputs {
		if v != NoValue {
			c.out[i] = InferOutput{DType: g.values[v].DType, Shape: g.values[v].Shape.bind(batch)}
		}
	}
	return s.MACs(c), false
}

// factors appends dimensions to a shape; nil stays nil.
func factors(outer Shape, inner ...Dim) Shape {
	if outer == nil {
		return nil
	}
	return append(append(Shape{}, outer...), inner...)
}

// openDims reports whether any dimension is open, and whether one behind the first is.
func openDims(s Shape) (open, inner bool) {
	for i, d := range s {
		open, inner = open || !d.Known(), inner || i > 0 && !d.Known()
	}
	return open, inner
}

// product multiplies the dimensions that are known; ok is false if that does not fit.
func product(s Shape) (p int64, ok bool) {
	n := uint64(1)
	for _, d := range s {
		if !d.Known() {
			continue
		}
		hi, lo := bits.Mul64(n, uint64(d.N))
		if hi != 0 || lo > 1<<63-1 {
			return 0, false
		}
		n = lo
	}
	return int64(n), true
}

// Bind gives the symbolic dimensions of the graph inputs a size, by their symbol ("" stands for dimensions without one), and
// then infers all shapes again. The errors are those of InferShapes.
func Bind(g *Graph, sizes map[string]int64) []error {
	for _, v := range g.Inputs {
		g.values[v].Shape = g.values[v].Shape.bind(sizes)
	}
	return InferShapes(g)
}

// bind replaces symbols in dimensions by sizes.
func (s Shape) bind(sizes map[string]int64) Shape {
	if s == nil {
		return nil
	}
	out := make(Shape, len(s))
	for i, d := range s {
		out[i] = d
		if d.Known() {
			continue
		}
		if d.Symbol == "" {
			if n, ok := sizes[""]; ok {
				out[i] = Dim{N: n}
			}
			continue
		}
		e := d.elem().bind(sizes)
		if e.Known || e.Symbol != "" {
			out[i] = e.dim()
		}
	}
	return out
}

// bind computes e with the sizes of the symbols in it that are given.
func (e Elem) bind(sizes map[string]int64) Elem {
	p, ok := e.poly()
	if !ok {
		return e
	}
	sum := known(p.c)
	for _, m := range p.terms {
		term := known(m.coef)
		for _, part := range m.parts {
			term = mulElems(term, bindPart(part, sizes))
		}
		sum = addElems(sum, term)
	}
	return sum
}

// bindPart is bind of a name or a quotient in parentheses.
func bindPart(part string, sizes map[string]int64) Elem {
	if n, ok := sizes[part]; ok {
		return known(n)
	}
	x, by, ok := quotient(part)
	if !ok {
		return Elem{Symbol: part}
	}
	e := x.bind(sizes)
	if e.Known && e.N >= 0 {
		return known(e.N / by)
	}
	return floorDiv(e, 0, by)
}

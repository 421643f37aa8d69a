package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// FoldScaleBefore moves a constant factor before an operator into its weights. Zero padding does not matter: a padded zero
// times the factor is a zero.
var FoldScaleBefore = Pass{
	Name: "fold-scale-before",
	Doc:  "Folds a constant Mul or Div before Conv, ConvTranspose, Gemm or MatMul into the weights, per tensor or per channel.",
	sweep: each(
		at("x = Mul(u, const k)\ny = "+weightedOps+"(x, w, b?)", foldScaleBefore),
		at("x = Div(u, const k)\ny = "+weightedOps+"(x, w, b?)", foldScaleBefore),
		at("x = Mul(u, const k)\ny = MatMul(const w, x)", foldScaleBefore),
		at("x = Div(u, const k)\ny = MatMul(const w, x)", foldScaleBefore),
		at("x = Mul(u, const k)\nz = Add|Sub(x, const d)\ny = "+weightedOps+"(z, w, b?)", foldScaleThrough)),
}

// foldScaleThrough turns weights of u*k+d into k times the weights of u+d/k, for one number k: what is padded with 0 stays 0. As many
// operators are left as with d alone, and so are tensors that round.
func foldScaleThrough(c *Context, m *pattern.Match) (*Patch, error) {
	x, z, u := m.Node("x"), m.Node("z"), m.Value("u")
	k, d := c.G.Const(m.Value("k")), c.G.Const(m.Value("d"))
	by, ok := pattern.Scalar(k)
	if have, known := pattern.Rank(c.G, u); !ok || by == 0 || d.DType != tensor.Float32 || !known || have < len(k.Shape) {
		return nil, decline("the factor before the offset is not one number")
	}
	if c.inIdiom(x) || c.inIdiom(z) || fromInput(c.G, u) || legacyBroadcast(c.G, c.G.Node(x)) || legacyBroadcast(c.G, c.G.Node(z)) {
		return nil, decline("factor and offset are part of something else")
	}
	l, err := c.linear(m.Root)
	if err != nil {
		return nil, err
	}
	if l.n.Input(l.input) != m.Value("z") {
		return nil, decline("the sum is the weight")
	}
	w, err := l.scaled(nil, []float64{by})
	if err != nil {
		return nil, err
	}
	offset := tensor.New(tensor.Float32, d.Shape...)
	for i, v := range d.F32() {
		offset.F32()[i] = float32(float64(v) / by)
	}
	if err := finite(offset); err != nil {
		return nil, err
	}
	p := &Patch{What: "Mul through the offset behind it into the weights of the " + l.n.Op + " after it"}
	sum := *c.G.Node(z)
	sum.Inputs = slices.Clone(sum.Inputs)
	for i, v := range sum.Inputs {
		if v == m.Value("x") {
			sum.Inputs[i] = u
		} else {
			sum.Inputs[i] = p.Const(c.G.Value(v).Name, offset)
		}
	}
	from := p.Temp(c.G.Value(m.Value("x")).Name, m.Value("z"))
	sum.Outputs = []graph.ValueID{from}
	p.Drop(x, z)
	p.Add(sum)
	if err := l.replace(c, p, w, nil, m.Value("y")); err != nil {
		return nil, err
	}
	p.add[len(p.add)-1].Inputs[l.input] = from
	return p, nil
}

func foldScaleBefore(c *Context, m *pattern.Match) (*Patch, error) {
	l, k, err := c.before(m)
	if err != nil {
		return nil, err
	}
	op := c.G.Node(m.Node("x")).Op
	if op == "Div" {
		k = inverse(k)
	}
	p := &Patch{What: op + " into the weights of the " + l.n.Op + " after it"}
	w, err := l.scaled(nil, k)
	if err != nil {
		return nil, err
	}
	if err := l.replace(c, p, w, nil, m.Value("y")); err != nil {
		return nil, err
	}
	p.skip(l.input, m)
	return p, nil
}

// FoldOffsetBefore moves a constant that is added before an operator into its bias, where no padding stands between: a padded
// zero is not the constant. An offset of the graph's input stays: it centres what will be quantized.
var FoldOffsetBefore = Pass{
	Name: "fold-offset-before",
	Doc:  "Folds a constant Add or Sub before a Conv without padding or a Gemm into the bias.",
	sweep: each(
		at("x = Add(u, const k)\ny = Conv|Gemm(x, w, b?)", foldOffsetBefore),
		at("x = Sub(u, const k)\ny = Conv|Gemm(x, w, b?)", foldOffsetBefore)),
}

func foldOffsetBefore(c *Context, m *pattern.Match) (*Patch, error) {
	if fromInput(c.G, m.Value("u")) {
		return nil, decline("the offset centres an input of the graph")
	}
	l, k, err := c.before(m)
	if err != nil {
		return nil, err
	}
	if l.n.Op == "Conv" && padded(l.n) {
		return nil, decline("the convolution pads with 0, which is not the constant")
	}
	sign := 1.0
	op := c.G.Node(m.Node("x")).Op
	if op == "Sub" {
		sign = -1
	}
	factor := sign
	if l.n.Op == "Gemm" {
		factor *= float64(l.n.Alpha())
	}
	bias := make([]float64, l.as.Out)
	copy(bias, l.bias)
	w := l.weight.F32()
	l.as.Each(func(lo, hi, o, i int) {
		for _, x := range w[lo:hi] {
			bias[o] += factor * float64(x) * k[i%len(k)]
		}
	})
	p := &Patch{What: op + " into the bias of the " + l.n.Op + " after it"}
	if err := l.replace(c, p, nil, bias, m.Value("y")); err != nil {
		return nil, err
	}
	p.skip(l.input, m)
	return p, nil
}

// fromInput reports whether v is a graph input, perhaps scaled, cast or brought into another shape.
func fromInput(g *graph.Graph, v graph.ValueID) bool {
	for !g.IsInput(v) {
		id := g.Producer(v)
		if id == graph.NoNode {
			return false
		}
		if op, ok := constantOperation(g, id); ok && op.product {
			v = op.x
			continue
		}
		n := g.Node(id)
		if n.Op != "Cast" && !n.HandsOn() {
			return false
		}
		v = n.Input(0)
	}
	return true
}

// skip makes the node added last read u instead of x, and drops x.
func (p *Patch) skip(input int, m *pattern.Match) {
	p.add[len(p.add)-1].Inputs[input] = m.Value("u")
	p.Drop(m.Node("x"))
}

// before reads a match of an elementwise operation x of u with the constant k, followed by an operator.
func (c *Context) before(m *pattern.Match) (*linear, []float64, error) {
	id := m.Node("x")
	if c.inIdiom(id) {
		return nil, nil, decline("%s is part of an operator written out", c.G.Node(id).Op)
	}
	if legacyBroadcast(c.G, c.G.Node(id)) {
		return nil, nil, decline("broadcasting by attributes (opset below 7)")
	}
	l, err := c.linear(m.Root)
	if err != nil {
		return nil, nil, err
	}
	if l.n.Input(l.input) != m.Value("x") {
		return nil, nil, decline("the product is the weight")
	}
	rank, axis := l.inAxis(c)
	constant := c.G.Const(m.Value("k"))
	k, err := alongAxis(constant, rank, axis, l.as.In)
	if err != nil {
		return nil, nil, err
	}
	// The operation may also have broadcast u; without it the operator would see fewer dimensions or elements.
	if n := len(constant.Shape); n > 0 && n >= rank {
		if have, ok := pattern.Rank(c.G, m.Value("u")); !ok || have < n {
			return nil, nil, decline("the constant %s may have more dimensions than %q", constant.Type(), c.G.Value(m.Value("u")).Name)
		}
	}
	if len(k) > 1 && !hasChannels(c.G, m.Value("u"), axis, rank, len(k)) {
		return nil, nil, decline("%q may have one channel, repeated by the constant", c.G.Value(m.Value("u")).Name)
	}
	return l, k, nil
}

// hasChannels reports whether v is known to have n elements along axis of rank.
func hasChannels(g *graph.Graph, v graph.ValueID, axis, rank, n int) bool {
	s := g.Value(v).Shape
	return len(s) == rank && axis >= 0 && axis < rank && s[axis].N == int64(n)
}

// padded reports whether a convolution or pool may read beyond its input.
func padded(n *graph.Node) bool {
	if mode := n.AttrStr("auto_pad", "NOTSET"); mode != "NOTSET" && mode != "VALID" {
		return true
	}
	for _, p := range n.AttrInts("pads") {
		if p != 0 {
			return true
		}
	}
	return false
}

// Package grad differentiates a graph: it writes what computes the gradients into the graph, as ONNX operators. So the executor's kernels
// run them, vectorized, for any number of threads with the same bytes, on whatever runs the graph.
//
// Unstable: it may change without notice.
package grad

import (
	"fmt"
	"maps"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// rule writes the gradients with respect to the inputs of a node, given those with respect to its outputs (NoValue: it is zero). It returns
// one for each input; NoValue where it is zero, or where t.wants says that nobody asks.
type rule func(t *tape, dy []graph.ValueID) []graph.ValueID

// families have an entry for every operator that can be differentiated.
var families = []map[string]rule{elementwise, functions, activations, products, attentions, windows, pools, norms, reductions, movers,
	scatters, constants}

// key is the name of an operator in families and without: that of ONNX alone, another domain's with the domain before it.
func key(domain, op string) string {
	if n := (graph.Node{Domain: domain}); n.IsONNX() {
		return op
	}
	return domain + "::" + op
}

// find returns the rule of an operator, by its key, nil if there is none.
func find(op string) rule {
	for _, f := range families {
		if r := f[op]; r != nil {
			return r
		}
	}
	return nil
}

// Operators lists the operators that have a rule, sorted.
func Operators() []string {
	var list []string
	for _, f := range families {
		list = slices.AppendSeq(list, maps.Keys(f))
	}
	slices.Sort(list)
	return list
}

// Add writes into g the nodes that compute the gradients with respect to wrt, values of g that are read by nodes (inputs, constants or
// results), by reverse accumulation (Griewank and Walther 2008, "Evaluating Derivatives", chapter 3). seeds has, by value, the gradient to
// begin with: of a scalar loss a one, of a tensor that whatever comes behind says; each of the value's own shape and type.
// What is returned has the shapes and types of wrt; NoValue where nothing that is seeded depends on it.
//
// Shapes of g have to be inferred and static, tensors float32 or float64, and the opset at least 11. Round passes its gradient (the
// straight-through estimator, Bengio et al. 2013), Floor, Ceil, Sign and comparisons pass none; where Max or a pool sees equal values the
// first has all of it, ReduceMax and ReduceMin share it; Relu has none at 0, and Clip passes where it changes nothing. An operator on the
// way without a rule is an error that names it, and says why there is none.
func Add(g *graph.Graph, seeds map[graph.ValueID]graph.ValueID, wrt []graph.ValueID) ([]graph.ValueID, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	if v := g.Opset(""); v < 11 {
		return nil, fmt.Errorf("grad: opset %d, at least 11 is needed", v)
	}
	t := &tape{NodeWriter: graph.NodeWriter{G: g}, asked: map[graph.ValueID]bool{}, sum: map[graph.ValueID]graph.ValueID{}}
	for _, v := range wrt {
		t.asked[v] = true
	}
	for _, id := range order { // what depends on one of them
		n := g.Node(id)
		if slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return t.asked[v] }) {
			for _, v := range n.Outputs {
				t.asked[v] = v != graph.NoValue || t.asked[v]
			}
		}
	}
	delete(t.asked, graph.NoValue)
	for v, seed := range seeds {
		t.sum[v] = seed
	}
	for _, id := range slices.Backward(order) {
		if err := t.node(id); err != nil {
			return nil, err
		}
	}
	list := make([]graph.ValueID, len(wrt))
	for i, v := range wrt {
		var ok bool
		if list[i], ok = t.sum[v]; !ok {
			list[i] = graph.NoValue
		}
	}
	return list, nil
}

// node adds what a node contributes to the gradients of its inputs.
func (t *tape) node(id graph.NodeID) error {
	t.n = *t.G.Node(id)
	t.Name = t.n.Name + "_grad"
	t.n.Inputs, t.n.Outputs = slices.Clone(t.n.Inputs), slices.Clone(t.n.Outputs)
	dy := make([]graph.ValueID, len(t.n.Outputs))
	seeded := false
	for i, v := range t.n.Outputs {
		dy[i] = graph.NoValue
		if d, ok := t.sum[v]; ok && v != graph.NoValue {
			dy[i], seeded = d, true
		}
	}
	if !seeded || !slices.ContainsFunc(t.n.Inputs, func(v graph.ValueID) bool { return t.asked[v] }) {
		return nil
	}
	op := key(t.n.Domain, t.n.Op)
	r := find(op)
	if r == nil {
		why := without[op]
		if why == "" {
			why = "it is unknown"
		}
		return fmt.Errorf("grad: %s %q: there is no rule for its gradient: %s", t.n.Op, t.n.Name, why)
	}
	for i, v := range t.n.Inputs {
		if v != graph.NoValue && t.G.Value(v).DType.IsFloat() {
			if _, ok := t.G.Value(v).Shape.Ints(); !ok {
				return fmt.Errorf("grad: %s %q: the shape %s of input %d is not known", t.n.Op, t.n.Name, t.G.Value(v).Shape, i)
			}
		}
	}
	t.dtype = t.G.Value(t.n.Outputs[0]).DType
	dx := r(t, dy)
	if t.Err != nil {
		return fmt.Errorf("grad: %s %q: %w", t.n.Op, t.n.Name, t.Err)
	}
	for i, d := range dx {
		v := t.n.Inputs[i]
		if d == graph.NoValue || !t.asked[v] {
			continue
		}
		if have, ok := t.sum[v]; ok {
			d = t.op("Add", have, d)
		}
		t.sum[v] = d
		t.G.Value(d).Shape, t.G.Value(d).DType = t.G.Value(v).Shape, t.G.Value(v).DType
	}
	return t.Err
}

// tape writes the gradients of one node after the other.
type tape struct {
	graph.NodeWriter
	asked map[graph.ValueID]bool          // its gradient, or that of something it depends on, is wanted
	sum   map[graph.ValueID]graph.ValueID // gradients so far
	n     graph.Node                      // whose turn it is
	dtype tensor.DType                    // of its results
}

// wants reports whether the gradient of an input is asked for.
func (t *tape) wants(i int) bool { return i < len(t.n.Inputs) && t.asked[t.n.Inputs[i]] }

// x and y are an input and an output of the node, NoValue where it is absent.
func (t *tape) x(i int) graph.ValueID { return t.n.Input(i) }
func (t *tape) y() graph.ValueID      { return t.n.Outputs[0] }

// shape is that of a value of the graph that is being differentiated.
func (t *tape) shape(v graph.ValueID) []int {
	s, ok := t.G.Value(v).Shape.Ints()
	if !ok {
		t.fail(fmt.Errorf("the shape of %s is not known", t.G.Value(v).Name))
	}
	return s
}

func (t *tape) fail(err error) {
	if t.Err == nil {
		t.Err = err
	}
}

// op adds an operator and returns its result.
func (t *tape) op(op string, in ...graph.ValueID) graph.ValueID { return t.with(op, nil, in...) }

// with is op with attributes.
func (t *tape) with(op string, attrs []graph.Attr, in ...graph.ValueID) graph.ValueID {
	v := t.Value(op, tensor.Undefined, nil)
	t.Attrs = attrs
	t.Add(op, in, v)
	return v
}

// scalar is a constant without axes of the type that the node computes in.
func (t *tape) scalar(x float64) graph.ValueID { return t.constant(nil, []float64{x}) }

// constant is a constant of the type that the node computes in.
func (t *tape) constant(shape []int, x []float64) graph.ValueID {
	c := tensor.New(t.dtype, shape...)
	for i, v := range x {
		if t.dtype == tensor.Float64 {
			c.Data.([]float64)[i] = v
		} else {
			c.F32()[i] = float32(v)
		}
	}
	return t.G.AddConst(t.G.FreshName(t.Name+"_const"), c)
}

// integers is a constant list of int64.
func (t *tape) integers(list ...int) graph.ValueID {
	return t.G.AddConst(t.G.FreshName(t.Name+"_ints"), tensor.FromI64(graph.Int64s(list), len(list)))
}

func (t *tape) mul(a, b graph.ValueID) graph.ValueID { return t.op("Mul", a, b) }
func (t *tape) scale(a graph.ValueID, x float64) graph.ValueID {
	if x == 1 {
		return a
	}
	return t.mul(a, t.scalar(x))
}

// where has a where a condition holds, else b.
func (t *tape) where(cond, a, b graph.ValueID) graph.ValueID { return t.op("Where", cond, a, b) }

// total sums over axes, which stay with one element.
func (t *tape) total(x graph.ValueID, axes ...int) graph.ValueID {
	keep := graph.Int("keepdims", 1)
	if t.G.Opset("") >= 13 {
		return t.with("ReduceSum", []graph.Attr{keep}, x, t.integers(axes...))
	}
	return t.with("ReduceSum", []graph.Attr{keep, graph.Ints("axes", graph.Int64s(axes)...)}, x)
}

// like sums what has the shape of from over the axes along which a tensor of shape to was repeated.
func (t *tape) like(x graph.ValueID, from, to []int) graph.ValueID {
	if slices.Equal(from, to) {
		return x
	}
	lead := len(from) - len(to)
	var axes []int
	for i := range from {
		if i < lead || to[i-lead] == 1 && from[i] != 1 {
			axes = append(axes, i)
		}
	}
	if len(axes) > 0 {
		x = t.total(x, axes...)
	}
	if lead > 0 {
		x = t.reshape(x, to)
	}
	return x
}

// back is like for input i of an operator that broadcasts.
func (t *tape) back(x graph.ValueID, i int) graph.ValueID {
	return t.like(x, t.shape(t.y()), t.shape(t.x(i)))
}

func (t *tape) reshape(x graph.ValueID, shape []int) graph.ValueID {
	return t.op("Reshape", x, t.integers(shape...))
}

func (t *tape) transpose(x graph.ValueID, perm ...int) graph.ValueID {
	return t.with("Transpose", []graph.Attr{graph.Ints("perm", graph.Int64s(perm)...)}, x)
}

// swapped has the last two axes of a tensor of some rank exchanged.
func (t *tape) swapped(x graph.ValueID, rank int) graph.ValueID {
	perm := upTo(0, rank)
	perm[rank-1], perm[rank-2] = rank-2, rank-1
	return t.transpose(x, perm...)
}

// slice takes [from, to) in steps along axes.
func (t *tape) slice(x graph.ValueID, from, to, axes, steps []int) graph.ValueID {
	return t.op("Slice", x, t.integers(from...), t.integers(to...), t.integers(axes...), t.integers(steps...))
}

// along multiplies along an axis of a tensor of some rank with the transposed of a constant matrix [size, new size]: the gradient of what
// that matrix, times the axis of the input, computes.
func (t *tape) along(x graph.ValueID, rank, axis int, matrix [][]float64) graph.ValueID {
	var flat []float64
	for _, row := range matrix {
		flat = append(flat, row...)
	}
	m := t.constant([]int{len(matrix), len(matrix[0])}, flat)
	if axis == rank-1 {
		return t.op("MatMul", x, m)
	}
	perm := upTo(0, rank)
	perm[axis], perm[rank-1] = rank-1, axis
	return t.transpose(t.op("MatMul", t.transpose(x, perm...), m), perm...)
}

// only is a list of gradients of which all but the i-th are none.
func (t *tape) only(i int, d graph.ValueID) []graph.ValueID {
	list := make([]graph.ValueID, len(t.n.Inputs))
	for k := range list {
		list[k] = graph.NoValue
	}
	list[i] = d
	return list
}

package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// FoldConstants computes nodes whose inputs are all constants.
var FoldConstants = Pass{
	Name:  "fold-constants",
	Doc:   "Computes nodes that read constants only, and Shape and Size of what has a fixed shape.",
	sweep: each(foldShape, foldConstant),
}

// maxFolded is the size in bytes up to which a folded result may be larger than all its operands together: folding the
// expansion of a scalar must not make a model grow.
const maxFolded = 1 << 20

// manyElements stands for more than can be folded: 2^40, or 2^28 where an int has 32 bits.
const manyElements = 1 << (28 + 12*(^uint(0)>>63))

// keptOps are not computed although their operands are constant: what they say about the model would be lost.
var keptOps = []string{"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Constant"}

func foldConstant(c *Context, id graph.NodeID) (*Patch, error) {
	g, n := c.G, c.G.Node(id)
	if !n.IsONNX() || !deterministic(n) || slices.Contains(keptOps, n.Op) || len(n.Subgraphs()) > 0 || len(n.Inputs) == 0 {
		return nil, nil
	}
	read := 0
	for _, v := range n.Inputs {
		switch t := g.Const(v); {
		case v == graph.NoValue:
		case t == nil:
			return nil, nil
		default:
			read += t.DType.Bytes(t.Len())
		}
	}
	if elements, ok := resultSize(g, n); ok && elements > maxFolded/4 && 4*elements > read {
		return nil, decline("the result would have %d elements", elements)
	}
	results, err := evaluate(c.ctx, g, id, read)
	if c.ctx.Err() != nil {
		return nil, c.ctx.Err()
	}
	if err != nil {
		return nil, decline("not computed: %v", err)
	}
	p := &Patch{What: "computed " + n.Op}
	p.Drop(id)
	for i, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if t := results[i]; t.DType.Bytes(t.Len()) > max(read, maxFolded) {
			return nil, decline("the result %s is larger than its operands", t.Type())
		}
		p.Fix(v, results[i])
	}
	return p, nil
}

// foldShape replaces Shape and Size of a value whose dimensions, those that are asked for, are fixed.
func foldShape(c *Context, id graph.NodeID) (*Patch, error) {
	n := c.G.Node(id)
	if n.Op != "Shape" && n.Op != "Size" || !n.IsONNX() {
		return nil, nil
	}
	shape := c.G.Value(n.Input(0)).Shape
	if !c.G.IsInput(n.Input(0)) { // what is recorded of an inner value may be wrong, or unknown until a shape before it was folded
		shape = c.proven(n.Input(0))
	}
	dims, ok := askedFor(n, shape)
	if !ok {
		return nil, nil
	}
	p := &Patch{What: "the shape is fixed"}
	p.Drop(id)
	if n.Op == "Shape" {
		p.Fix(n.Outputs[0], tensor.FromI64(dims, len(dims)))
		return p, nil
	}
	count, err := tensor.CheckedCount(dims, manyElements)
	if err != nil {
		return nil, nil
	}
	p.Fix(n.Outputs[0], tensor.FromI64([]int64{int64(count)}))
	return p, nil
}

// askedFor returns the dimensions from attribute start up to end of a Shape node, all of a Size node; false unless all of them are
// known.
func askedFor(n *graph.Node, shape graph.Shape) ([]int64, bool) {
	if shape == nil {
		return nil, false
	}
	rank := int64(len(shape))
	within := func(i int64) int64 {
		if i < 0 {
			i += rank
		}
		return min(max(i, 0), rank)
	}
	dims := []int64{}
	for i := within(n.AttrInt("start", 0)); i < within(n.AttrInt("end", rank)); i++ {
		if !shape[i].Known() {
			return nil, false
		}
		dims = append(dims, shape[i].N)
	}
	return dims, true
}

// deterministic reports whether an operator gives the same result every time.
func deterministic(n *graph.Node) bool {
	switch n.Op {
	case "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout":
		return false
	}
	return true
}

// resultSize bounds the number of elements of the result of operators whose result may be larger than their operands;
// false for all others.
func resultSize(g *graph.Graph, n *graph.Node) (int, bool) {
	var dims []int64
	switch n.Op {
	case "ConstantOfShape":
		dims = Integers(g.Const(n.Input(0)))
	case "Expand", "Reshape":
		dims = Integers(g.Const(n.Input(1)))
		if slices.Contains(dims, -1) {
			return 0, false
		}
	case "Tile":
		dims = append(Integers(g.Const(n.Input(1))), int64(g.Const(n.Input(0)).Len()))
	case "Range":
		start, okS := pattern.Scalar(g.Const(n.Input(0)))
		limit, okL := pattern.Scalar(g.Const(n.Input(1)))
		delta, okD := pattern.Scalar(g.Const(n.Input(2)))
		if !okS || !okL || !okD || delta == 0 {
			return 0, false
		}
		return int(min((limit-start)/delta, 1<<40)), true
	case "Pad":
		pads := n.AttrInts("pads")
		if pads == nil {
			pads = Integers(g.Const(n.Input(1)))
		}
		shape := g.Const(n.Input(0)).Shape
		for i, d := range shape {
			dims = append(dims, int64(d))
			if len(pads) == 2*len(shape) {
				dims[i] += pads[i] + pads[i+len(shape)]
			}
		}
	default:
		return broadcastSize(g, n)
	}
	count, err := tensor.CheckedCount(dims, manyElements)
	if err != nil {
		return manyElements, true
	}
	return count, true
}

// broadcastSize bounds the elementwise combination of several operands and products of two matrices by the product of
// the largest two operands' sizes where that is small, else by the broadcast shape.
func broadcastSize(g *graph.Graph, n *graph.Node) (int, bool) {
	if len(n.Inputs) < 2 {
		return 0, false
	}
	var dims []int64
	for _, v := range n.Inputs {
		if v == graph.NoValue {
			continue
		}
		shape := g.Const(v).Shape
		for i := range shape {
			at := len(shape) - 1 - i
			if i == len(dims) {
				dims = append(dims, 1)
			}
			dims[i] = max(dims[i], int64(shape[at]))
		}
	}
	count, err := tensor.CheckedCount(dims, manyElements)
	if err != nil {
		return manyElements, true
	}
	return count, true
}

// Integers are the elements of a constant of int64 or int32, copied; nil for others and for none.
func Integers(t *tensor.Tensor) []int64 {
	if t == nil {
		return nil
	}
	if v := t.I64(); v != nil {
		return slices.Clone(v)
	}
	var out []int64
	for _, x := range tensor.Of[int32](t) {
		out = append(out, int64(x))
	}
	return out
}

package graph

import (
	"errors"

	"qwb/graph/tensor"
)

var reduceOps = []OpSpec{
	reduce("ReduceSum", "sum over axes"), reduce("ReduceMean", "mean over axes"),
	reduce("ReduceProd", "product over axes"), reduce("ReduceL1", "sum of absolute values over axes"),
	reduce("ReduceL2", "root of the sum of squares over axes"),
	reduce("ReduceLogSum", "logarithm of the sum over axes"),
	reduce("ReduceLogSumExp", "logarithm of the sum of exponentials over axes"),
	reduce("ReduceSumSquare", "sum of squares over axes"),
	passive(reduce("ReduceMax", "largest element over axes")), passive(reduce("ReduceMin", "smallest element over axes")),
	arg("ArgMax", "index of the largest element"), arg("ArgMin", "index of the smallest element"),
	{Name: "CumSum", Doc: "running sum along an axis", Since: 11, Kind: KindReduce, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Infer: inferSame},
	{Name: "CumProd", Doc: "running product along an axis", Since: 26, Kind: KindReduce, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Infer: inferSame},
}

func passive(s OpSpec) OpSpec {
	s.Passive = always
	return s
}

// reduce is a reduction whose axes are an attribute or, from opset 13 (ReduceSum) or 18 (the others) on, an input.
func reduce(name, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: 1, Kind: KindReduce, MinIn: 1, In: []Socket{SocketData, SocketIndex}, Infer: inferReduce}
}

func arg(name, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: 1, Kind: KindReduce, MinIn: 1, Out: []Socket{SocketIndex}, Infer: inferArg}
}

// ReduceAxes returns the axes that a Reduce operator sums over, normalised and in the order given, for an input of the given
// rank; all of them where none are given, none with noop_with_empty_axes. axes is the content of the axes input, nil where
// it is absent (before opset 13 for ReduceSum and 18 for the others, the attribute counts).
func ReduceAxes(n *Node, rank int, axes []int64) ([]int, error) {
	if axes == nil {
		axes = n.AttrInts("axes")
	}
	if len(axes) == 0 {
		if n.AttrInt("noop_with_empty_axes", 0) != 0 {
			return []int{}, nil
		}
		all := make([]int, rank)
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	return normAxes(axes, rank)
}

// ReducedAxes is ReduceAxes of a node of g. Axes that are computed are an error.
func (g *Graph) ReducedAxes(n *Node, rank int) ([]int, error) {
	var list []int64
	if v := n.Input(1); v != NoValue {
		c := g.Const(v)
		if c == nil || c.I64() == nil {
			return nil, errors.New("the axes are not constant")
		}
		list = c.I64()
	}
	return ReduceAxes(n, rank, list)
}

func inferReduce(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	keep := c.Node.KeepDims()
	var given []int64
	if c.Has(1) {
		var ok bool
		if given, ok = c.Ints(1); !ok {
			if keep {
				c.SetOut(0, c.DType(0), unknownShape(len(x)))
			}
			return nil
		}
	}
	axes, err := ReduceAxes(c.Node, len(x), given)
	if err != nil {
		return err
	}
	c.SetOut(0, c.DType(0), reducedShape(x, axes, keep))
	if elems, ok := c.Elems(0); ok && c.Node.Op == "ReduceProd" && len(x) == 1 && len(axes) == 1 {
		p := known(1)
		for _, e := range elems {
			p = mulElems(p, e)
		}
		c.setInts(0, []Elem{p})
	}
	return nil
}

func reducedShape(x Shape, axes []int, keep bool) Shape {
	gone := make([]bool, len(x))
	for _, a := range axes {
		gone[a] = true
	}
	out := Shape{}
	for i, d := range x {
		switch {
		case !gone[i]:
			out = append(out, d)
		case keep:
			out = append(out, Dim{N: 1})
		}
	}
	return out
}

func unknownShape(rank int) Shape {
	s := make(Shape, rank)
	for i := range s {
		s[i] = unknownDim
	}
	return s
}

func inferArg(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, tensor.Int64, nil)
	if x == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	c.SetOut(0, tensor.Int64, reducedShape(x, []int{axis}, c.Node.KeepDims()))
	return nil
}

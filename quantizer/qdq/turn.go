package qdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// turned reports whether a node transposes a constant of integers that was dequantized, as PyTorch writes the weights of linear
// layers. Its readers get the integers transposed instead.
func (r *reader) turned(id graph.NodeID) bool {
	n := r.g.Node(id)
	if n.Op != "Transpose" || n.Domain != "" || len(n.Outputs) != 1 || r.g.IsOutput(n.Output(0)) || r.g.Captured(n.Output(0)) {
		return false
	}
	p := r.g.Producer(n.Input(0))
	if p == graph.NoNode || !isDequantize(r.g.Node(p)) {
		return false
	}
	t := r.g.Const(r.g.Node(p).Inputs[0])
	return t != nil && r.g.Node(p).AttrInt("block_size", 0) == 0
}

// turn returns the float form of a transposed constant of integers.
func (r *reader) turn(id graph.NodeID) (link, error) {
	n := r.g.Node(id)
	v := n.Outputs[0]
	if l, ok := r.links[v]; ok {
		return l, nil
	}
	l, err := r.follow(n.Inputs[0])
	if err != nil {
		return l, err
	}
	c := r.q.codes[l.value]
	shape := r.g.Const(l.value).Shape
	perm, err := graph.TransposePerm(n, len(shape))
	if err != nil {
		return l, r.g.ErrorAt(stage, id, err)
	}
	q := *c.grid
	if q.axis >= 0 {
		q.axis = slices.Index(perm, q.axis)
	}
	codes, to := permute(c.integers, shape, perm)
	f := r.g.AddConst(r.g.Value(v).Name+"_turned", q.dequantize(codes, to))
	r.q.codes[f] = &code{codes, &q}
	r.links[v] = link{f, []*grid{&q}}
	return r.links[v], nil
}

// permute moves the elements of a row-major tensor: axis i of the result is axis perm[i] of x.
func permute(x []int32, shape, perm []int) (out []int32, to []int) {
	stride := make([]int, len(shape))
	to = make([]int, len(shape))
	for i, p := range perm {
		to[i], stride[i] = shape[p], tensor.Count(shape[p+1:])
	}
	out = make([]int32, len(x))
	index := make([]int, len(to))
	for k := range out {
		from := 0
		for i, j := range index {
			from += j * stride[i]
		}
		out[k] = x[from]
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < to[i] {
				break
			}
			index[i] = 0
		}
	}
	return out, to
}

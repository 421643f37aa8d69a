package qdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// turned reports whether a node transposes a constant that was dequantized, as PyTorch writes the weights of linear
// layers. Its readers get the constant transposed instead.
func (r *reader) turned(id graph.NodeID) bool {
	n := r.g.Node(id)
	if n.Op != "Transpose" || n.Domain != "" || len(n.Outputs) != 1 || r.g.IsOutput(n.Output(0)) || r.g.Captured(n.Output(0)) {
		return false
	}
	p := r.g.Producer(n.Input(0))
	if p == graph.NoNode || !isDequantize(r.g.Node(p)) {
		return false
	}
	v := r.g.Node(p).Inputs[0]
	if q := r.g.Producer(v); q != graph.NoNode && isQuantize(r.g.Node(q)) {
		v = r.g.Node(q).Inputs[0]
		if t := r.g.Const(v); t == nil || t.DType != tensor.Float32 {
			return false
		}
	}
	return r.g.Const(v) != nil && r.g.Node(p).AttrInt("block_size", 0) == 0
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
	if len(l.chain) != 1 {
		return l, r.g.ErrorAt(stage, id, fmt.Errorf("it transposes a constant that is quantized %d times", len(l.chain)))
	}
	c := r.q.codes[l.value]
	shape := r.g.Const(l.value).Shape
	perm, err := graph.TransposePerm(n, len(shape))
	if err != nil {
		return l, r.g.ErrorAt(stage, id, err)
	}
	q := *l.chain[0]
	if q.axis >= 0 {
		q.axis = slices.Index(perm, q.axis)
	}
	if c == nil {
		x, to := permute(r.g.Const(l.value).ToRowMajor().F32(), shape, perm)
		r.links[v] = link{r.g.AddConst(r.g.Value(v).Name+"_turned", tensor.FromF32(x, to...)), []*grid{&q}}
		return r.links[v], nil
	}
	list, to := permute(c.codes.Integers(), shape, perm)
	turned := q.code(&tensor.Tensor{DType: tensor.Int32, Shape: to, Data: list})
	r.links[v] = link{r.coded(r.g.Value(v).Name+"_turned", turned), []*grid{&q}}
	return r.links[v], nil
}

// permute moves the elements of a row-major tensor: axis i of the result is axis perm[i] of x.
func permute[T any](x []T, shape, perm []int) (out []T, to []int) {
	stride := make([]int, len(shape))
	to = make([]int, len(shape))
	for i, p := range perm {
		to[i], stride[i] = shape[p], tensor.Count(shape[p+1:])
	}
	out = make([]T, len(x))
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

package verify

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// known is a name of what a step computes. With a perm the name is that of a tensor before Transposes that end the step: the output is this
// tensor transposed by perm. Files whose operators have channels last do without such a Transpose, so one program may have the one tensor
// where the other has the other; and a file may have the tensor itself in another order of axes.
type known struct {
	name string
	perm []int
}

// knownBy lists all names of what a step computes.
func (x *side) knownBy(s *lower.Step) (list []known) {
	for _, name := range namesOf(x.program, s) {
		if name != "" {
			list = append(list, known{name, x.order(name)})
		}
	}
	island, ok := s.Op.(*lower.Island)
	if !ok || len(island.Graph.Outputs) != 1 || len(s.Outputs) != 1 {
		return list
	}
	g := island.Graph
	for v, perm := g.Outputs[0], []int(nil); ; {
		id := g.Producer(v)
		if id == graph.NoNode || g.Node(id).Op != "Transpose" {
			return list
		}
		rank := len(g.Node(id).AttrInts("perm")) // islands need not know shapes
		last, err := graph.TransposePerm(g.Node(id), rank)
		if err != nil || rank == 0 || perm != nil && len(perm) != rank {
			return list
		}
		if perm == nil {
			perm = last
		} else { // axis i of the output is axis last[perm[i]] of the tensor before both
			perm = composed(last, perm)
		}
		v = g.Node(id).Inputs[0]
		list = append(list, known{g.Value(v).Name, composed(x.order(g.Value(v).Name), perm)})
	}
}

// composed is what two perms do, one after the other.
func composed(first, then []int) []int {
	if len(first) != len(then) {
		return then
	}
	list := make([]int, len(then))
	for i, a := range then {
		list[i] = first[a]
	}
	return list
}

// inverse undoes a perm.
func inverse(perm []int) []int {
	if perm == nil {
		return nil
	}
	list := make([]int, len(perm))
	for i, a := range perm {
		list[a] = i
	}
	return list
}

// turnedBy transposes tensors; no perm leaves them as they are. What is neither float32
// nor integers, or has not as many axes, has no name but its own: nil.
func turnedBy(list []*tensor.Tensor, perm []int) []*tensor.Tensor {
	if perm == nil {
		return list
	}
	out := make([]*tensor.Tensor, len(list))
	for i, x := range list {
		if x == nil || len(x.Shape) != len(perm) || x.DType != tensor.Float32 && x.Integers() == nil {
			return nil
		}
		out[i] = transposed(x.ToRowMajor(), perm)
	}
	return out
}

// transposed is a tensor of float32 or of integers whose axis i is axis perm[i] of x.
func transposed(x *tensor.Tensor, perm []int) *tensor.Tensor {
	shape := make([]int, len(perm))
	for i, a := range perm {
		shape[i] = x.Shape[a]
	}
	y := tensor.New(x.DType, shape...)
	if x.DType == tensor.Float32 {
		permute(y.F32(), x.F32(), x.Shape, perm)
		return y
	}
	list := make([]int32, x.Len())
	permute(list, x.Integers(), x.Shape, perm)
	return y.WithIntegers(list)
}

// permute moves the elements of a row-major tensor of that shape.
func permute[T any](to, from []T, shape, perm []int) {
	stride := make([]int, len(perm))
	for i, a := range perm {
		stride[i] = tensor.Count(shape[a+1:])
	}
	index, at := make([]int, len(perm)), 0
	for k := range to {
		to[k] = from[at]
		for j := len(perm) - 1; j >= 0; j-- {
			n := shape[perm[j]]
			if index[j], at = index[j]+1, at+stride[j]; index[j] < n {
				break
			}
			index[j], at = 0, at-stride[j]*n
		}
	}
}

// placed are the tensors of a list with their channels where those of out have them; nil where they are others.
func placed(list, out []*tensor.Tensor) []*tensor.Tensor {
	if len(list) != len(out) {
		return nil
	}
	if fit(list, out) && !slices.ContainsFunc(list, func(x *tensor.Tensor) bool { return x != nil && cube(x.Shape) }) {
		return list
	}
	moved := slices.Clone(list)
	for i, x := range list {
		if x == nil || out[i] == nil || len(x.Shape) != 3 && len(x.Shape) != 4 {
			continue
		}
		for _, y := range []*tensor.Tensor{movedFirst(x), movedLast(x)} {
			if y.DType != out[i].DType || !slices.Equal(y.Shape, out[i].Shape) {
				continue
			}
			if !cube(x.Shape) || !alike(moved[i], out[i]) { // where the shape does not tell, the numbers do
				moved[i] = y
			}
		}
	}
	if !fit(moved, out) {
		return nil
	}
	return moved
}

// fit reports whether one list of outputs can stand for another.
func fit(a, b []*tensor.Tensor) bool {
	for i, x := range a {
		y := b[i]
		if (x == nil) != (y == nil) || x != nil && (x.DType != y.DType || !slices.Equal(x.Shape, y.Shape)) {
			return false
		}
	}
	return true
}

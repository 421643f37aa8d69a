package verify

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// known is a name of what a step computes. With a perm the name is that of a tensor before Transposes that end the step: the output is this
// tensor transposed by perm. Files whose operators have channels last do without such a Transpose, so one program may have the one tensor
// where the other has the other.
type known struct {
	name string
	perm []int
}

// knownBy lists all names of what a step computes.
func knownBy(p *lower.Program, s *lower.Step) (list []known) {
	for _, name := range namesOf(p, s) {
		if name != "" {
			list = append(list, known{name: name})
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
			before := make([]int, len(perm))
			for i, a := range perm {
				before[i] = last[a]
			}
			perm = before
		}
		v = g.Node(id).Inputs[0]
		list = append(list, known{g.Value(v).Name, perm})
	}
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

// turnedBy transposes tensors; no perm leaves them as they are. What is no float of as many axes has no name but its own: nil.
func turnedBy(list []*tensor.Tensor, perm []int) []*tensor.Tensor {
	if perm == nil {
		return list
	}
	out := make([]*tensor.Tensor, len(list))
	for i, x := range list {
		if x == nil || x.DType != tensor.Float32 || len(x.Shape) != len(perm) {
			return nil
		}
		out[i] = transposed(x.ToRowMajor(), perm)
	}
	return out
}

// transposed is a tensor whose axis i is axis perm[i] of x.
func transposed(x *tensor.Tensor, perm []int) *tensor.Tensor {
	shape, stride := make([]int, len(perm)), make([]int, len(perm))
	for i, a := range perm {
		shape[i], stride[i] = x.Shape[a], tensor.Count(x.Shape[a+1:])
	}
	y := tensor.New(tensor.Float32, shape...)
	index, at, from := make([]int, len(perm)), 0, x.F32()
	for k := range y.F32() {
		y.F32()[k] = from[at]
		for j := len(perm) - 1; j >= 0; j-- {
			if index[j], at = index[j]+1, at+stride[j]; index[j] < shape[j] {
				break
			}
			index[j], at = 0, at-stride[j]*shape[j]
		}
	}
	return y
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

package steps

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Move is where the elements of one output come from.
type Move struct {
	Out    int // number of the output
	Shape  []int
	Same   bool // the bytes are those of the input
	Size   int  // runs of so many bytes lie together
	Starts []int32
}

// Looks are operators whose result depends on the codes.
var Looks = []string{"ReduceMax", "ReduceMin"}

// MoveNumbers runs an operator that moves elements on numbers in their place; -1 stands for the fill of a Pad. others are the
// operator's further inputs.
func MoveNumbers(ctx context.Context, op *lower.Move, numbers *tensor.Tensor, others []*tensor.Tensor) ([]*tensor.Tensor, error) {
	g := op.Graph.Clone()
	node := g.Node(g.Nodes()[0])
	g.Value(g.Inputs[0]).DType = tensor.Int32
	for _, v := range g.Outputs {
		g.Value(v).DType = tensor.Int32
	}
	pads := node.Op == "Pad" // whose fill is 0, said or not: places count from 1
	if pads {
		node.DropAttr("value")
		if len(node.Inputs) > 2 && node.Inputs[2] != graph.NoValue {
			g.SetInput(node.ID, 2, g.AddConst(g.FreshName("outside"), tensor.New(tensor.Int32)))
		}
		numbers = counted(numbers, 1)
	}
	session, err := exec.New(g, exec.Options{Context: ctx})
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: numbers}
	for i, t := range others {
		feeds[g.Value(g.Inputs[i+1]).Name] = t
	}
	out, err := session.NewRunner().Run(ctx, feeds, nil)
	if err == nil && pads {
		out[0] = counted(out[0], -1)
	}
	return out, err
}

// counted adds a number to all.
func counted(t *tensor.Tensor, by int32) *tensor.Tensor {
	t = t.ToRowMajor()
	out := tensor.New(tensor.Int32, t.Shape...)
	for i, x := range tensor.Of[int32](t) {
		tensor.Of[int32](out)[i] = x + by
	}
	return out
}

// MoveOf describes an output whose elements come from the given places of an input of n elements.
func MoveOf(out int, from []int32, shape []int, n int) Move {
	m := Move{Out: out, Shape: slices.Clone(shape), Same: len(from) == n}
	for i, f := range from {
		m.Same = m.Same && int(f) == i
	}
	if m.Same {
		return m
	}
	for m.Size = len(from); m.Size > 1; m.Size = smaller(len(from), m.Size) {
		if together(from, m.Size) {
			break
		}
	}
	for i := 0; i < len(from); i += max(m.Size, 1) {
		m.Starts = append(m.Starts, from[i])
	}
	return m
}

// smaller returns the largest divisor of n below size.
func smaller(n, size int) int {
	for size--; size > 1 && n%size != 0; size-- {
	}
	return size
}

// together reports whether runs of size elements come from consecutive places.
func together(from []int32, size int) bool {
	for i := 0; i < len(from); i += size {
		for k, f := range from[i : i+size] {
			if from[i] < 0 && f >= 0 || from[i] >= 0 && f != from[i]+int32(k) {
				return false
			}
		}
	}
	return true
}

package steps

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Function is three steps that compute a function of single codes.
type Function struct {
	First, Middle, Last *lower.Step // Dequantize, Island, Quantize
}

// Functions lists the functions of a program of which nobody reads what is between the steps.
func Functions(p *lower.Program) (list []Function) {
	makers, readers := make([]*lower.Step, len(p.Tensors)), make([]int, len(p.Tensors))
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, id := range s.Inputs {
			readers[id]++
		}
		for _, id := range s.Outputs {
			if id != lower.NoTensor {
				makers[id] = s
			}
		}
	}
	for _, id := range p.Outputs {
		readers[id]++
	}
	for i := range p.Steps {
		last := &p.Steps[i]
		if _, ok := last.Op.(*lower.Quantize); !ok || readers[last.Inputs[0]] != 1 {
			continue
		}
		middle := makers[last.Inputs[0]]
		if middle == nil || len(middle.Inputs) != 1 || readers[middle.Inputs[0]] != 1 {
			continue
		}
		island, ok := middle.Op.(*lower.Island)
		if !ok || !pointwise(island.Graph) {
			continue
		}
		first := makers[middle.Inputs[0]]
		if first == nil {
			continue
		}
		if _, ok := first.Op.(*lower.Dequantize); !ok || !EightBit(p, first) || !EightBit(p, last) {
			continue
		}
		list = append(list, Function{first, middle, last})
	}
	return list
}

// pointwise reports whether a graph of one input and one output computes every element from the one at the same place.
func pointwise(g *graph.Graph) bool {
	if len(g.Inputs) != 1 || len(g.Outputs) != 1 {
		return false
	}
	rank := len(g.Value(g.Inputs[0]).Shape)
	if rank == 0 { // or unknown
		return false
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		s := n.Spec()
		if s == nil || s.Kind != graph.KindActivation && s.Kind != graph.KindElementwise || len(n.Outputs) != 1 {
			return false
		}
		for _, v := range n.Inputs {
			if v == graph.NoValue {
				continue
			}
			c := g.Const(v)
			switch {
			case c != nil && (c.Len() != 1 || len(c.Shape) > rank):
				return false
			case c == nil && g.Value(v).DType != tensor.Float32:
				return false
			}
		}
	}
	return true
}

// Tabulate runs the three steps on every code and returns the function; nil where a code gives NaN or an infinite number, which is found
// only where the steps are computed as they are.
func (f Function) Tabulate(p *lower.Program) (func(q int32) int32, error) {
	in := p.Tensors[f.First.Inputs[0]].DType
	g := f.Middle.Op.(*lower.Island).Graph.Clone()
	shape := make([]int, len(g.Value(g.Inputs[0]).Shape))
	for i := range shape {
		shape[i] = 1
	}
	shape[len(shape)-1] = 256
	for _, v := range g.Values() { // any number of elements
		if g.Const(v) == nil {
			g.Value(v).Shape = nil
		}
	}
	session, err := exec.New(g, exec.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	x := tensor.New(tensor.Float32, shape...)
	encoding := p.Tensors[f.First.Inputs[0]].Encoding.Grid()
	for i := range 256 {
		x.F32()[i] = encoding.Dequantize(int32(i) - Raised(in))
	}
	y, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: x}, nil)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(y[0].F32(), func(v float32) bool { return v-v != 0 }) {
		return nil, nil
	}
	q := f.Last.Op.(*lower.Quantize).Quantizer
	return func(c int32) int32 { return q.At(y[0].F32()[c+Raised(in)]) }, nil
}

// EightBit reports whether inputs and outputs of a step that stand for real numbers have 8 bits.
func EightBit(p *lower.Program, s *lower.Step) bool {
	for _, list := range [][]lower.TensorID{s.Inputs, s.Outputs} {
		for _, id := range list {
			if id != lower.NoTensor && p.Tensors[id].Quantized() && p.Tensors[id].DType.Bits() != 8 {
				return false
			}
		}
	}
	return true
}

// Raised is what is added to a code of type d to make it a byte.
func Raised(d tensor.DType) int32 {
	if d == tensor.Int8 {
		return 128
	}
	return 0
}

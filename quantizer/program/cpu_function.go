package program

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// cpuFunction computes three steps as one: integers made real, an island that computes every element from the one at the same place,
// and integers made of that. The island is run once on every code there is; its kernels give an element the same bits wherever it
// stands. Runs with a hook, which shows the steps between, compute them as they are.
type cpuFunction struct {
	*cpuMap
	from lower.TensorID // what the first of the steps reads
}

// joinFunctions finds such steps. Of each three, the first two are marked as covered and the last gets the function.
func (e *cpuEngine) joinFunctions() error {
	for _, f := range findFunctions(e.program) {
		at, err := f.tabulate(e.program)
		if err != nil {
			return err
		}
		in, out := e.program.Tensors[f.first.Inputs[0]].DType, e.program.Tensors[f.last.Outputs[0]].DType
		m := &cpuMap{table: newByteTable(in, out, at), dtype: out, par: e.par}
		m.piece = m.runPiece
		e.steps[f.first.ID].covered, e.steps[f.middle.ID].covered = true, true
		e.steps[f.last.ID].function = &cpuFunction{m, f.first.Inputs[0]}
	}
	return nil
}

// function is three steps that compute a function of single codes.
type function struct {
	first, middle, last *lower.Step // Dequantize, Island, Quantize
}

// findFunctions lists the functions of a program of which nobody reads what is between the steps.
func findFunctions(p *lower.Program) (list []function) {
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
		if _, ok := first.Op.(*lower.Dequantize); !ok || !eightBit(p, first) || !eightBit(p, last) {
			continue
		}
		list = append(list, function{first, middle, last})
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

// tabulate runs the three steps on every code and returns the function.
func (f function) tabulate(p *lower.Program) (func(q int32) int32, error) {
	in := p.Tensors[f.first.Inputs[0]].DType
	g := f.middle.Op.(*lower.Island).Graph.Clone()
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
	encoding := p.Tensors[f.first.Inputs[0]].Encoding.Grid()
	for i := range 256 {
		x.F32()[i] = encoding.Dequantize(int32(i) - bias(in))
	}
	y, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: x}, nil)
	if err != nil {
		return nil, err
	}
	q := f.last.Op.(*lower.Quantize).Quantizer
	return func(c int32) int32 { return q.At(y[0].F32()[c+bias(in)]) }, nil
}

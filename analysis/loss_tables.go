package analysis

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// tables returns hooks that compute functions by the program's tables, in the simulation: the input is on its grid already.
func (e *explainer) tables() *exec.Hooks {
	p := e.cfg.Program
	heads, tails := map[graph.NodeID]*lower.Step{}, map[graph.NodeID]*lower.Step{}
	wants := map[graph.ValueID]bool{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if _, ok := s.Op.(*lower.Table); !ok {
			continue
		}
		last := s.Nodes[len(s.Nodes)-1]
		heads[s.Node], tails[last] = s, s
		wants[e.g.Node(s.Node).Inputs[0]], wants[e.g.Node(last).Outputs[0]] = true, true
	}
	read := map[lower.StepID]*tensor.Tensor{}
	return &exec.Hooks{
		Input: func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
			if s := heads[n.ID]; s != nil && i == 0 && e.own(n) {
				read[s.ID] = t.Clone()
			}
			return t, nil
		},
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
			s := tails[n.ID]
			if s == nil || i != 0 || !e.own(n) {
				return nil
			}
			x := read[s.ID]
			if x == nil || x.Len() != t.Len() {
				return fmt.Errorf("the table of %q has no input", n.Name)
			}
			delete(read, s.ID)
			y, err := looked(p, s, x)
			if err != nil {
				return err
			}
			if y.Layout != t.Layout {
				if y = y.ToRowMajor(); t.Layout == tensor.ChannelsLast {
					y = y.ToChannelsLast()
				}
			}
			copy(t.F32(), y.F32())
			return nil
		},
		Wants: func(v graph.ValueID) bool { return wants[v] },
	}
}

// own reports whether a node is the graph's, and not one of a subgraph with the same number.
func (e *explainer) own(n *graph.Node) bool {
	return int(n.ID) < e.g.NumNodes() && e.g.Node(n.ID).Name == n.Name && e.g.Node(n.ID).Op == n.Op
}

// looked computes a table step on real numbers.
func looked(p *lower.Program, s *lower.Step, x *tensor.Tensor) (*tensor.Tensor, error) {
	op, ok := s.Op.(*lower.Table)
	in, out := p.Tensors[s.Inputs[0]].Encoding, p.Tensors[s.Outputs[0]].Encoding
	if !ok || in == nil || out == nil || x.DType != tensor.Float32 {
		return nil, fmt.Errorf("%s is no input of a table", x.Type())
	}
	entries := op.Codes.Integers()
	y := x.Clone()
	from, to := in.Grid(), out.Grid()
	for i, v := range x.F32() {
		y.F32()[i] = to.Dequantize(entries[int(from.Quantize(v))&(len(entries)-1)])
	}
	return y, nil
}

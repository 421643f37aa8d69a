package espdl

import (
	"fmt"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// reads is the kind of an item that says which tensors of the program a step's output is computed from, in their order. Nodes of the file
// that no step has (other layouts, other scales, limits, pads) hand on what they read. Constants are none of them.
const reads export.ItemKind = "what it reads"

// counts is the kind of an item that says which integers the nodes of a step compute with, and how its factors lie.
const counts export.ItemKind = "types of integers"

// numbers are those of a step that has nodes of its own; a Transpose has those of what it moves.
func (at *places) numbers(p *lower.Program, s *lower.Step) *export.Item {
	if _, island := s.Op.(*lower.Island); island || at.sources(p, s) == nil {
		return nil
	}
	id := s.Outputs[0]
	if _, ok := s.Op.(*lower.Dequantize); ok {
		id = s.Inputs[0]
	}
	if to, ok := at.same[id]; ok {
		id = to
	}
	it := &export.Item{At: export.StepName(p, s), Kind: counts, Texts: []string{"F32"}}
	switch p.Tensors[id].DType {
	case tensor.Int8:
		it.Texts[0] = "S8"
	case tensor.Int16:
		it.Texts[0] = "S16"
	}
	if l, ok := s.Op.(*lower.Linear); ok {
		switch n := p.Graph.Node(s.Node); {
		case n.Op == "Gemm":
			it.Texts = append(it.Texts, "transB=0")
		case n.Op == "MatMul" && l.Weights == nil:
			it.Texts = append(it.Texts, "input1_layout=native_kn")
		case n.Op == "MatMul":
			it.Texts = append(it.Texts, "input1_layout=packed")
		}
	}
	return it
}

// sources are the tensors of the program that a step reads, as the file calls them.
func (at *places) sources(p *lower.Program, s *lower.Step) *export.Item {
	if len(s.Outputs) != 1 || s.Outputs[0] == lower.NoTensor {
		return nil
	}
	it := &export.Item{At: export.StepName(p, s), Kind: reads, Texts: []string{}}
	for _, id := range inOrder(s) {
		if id != lower.NoTensor && p.Tensors[id].Const == nil {
			it.Texts = append(it.Texts, at.called(id))
		}
	}
	if slices.Contains(it.Texts, "") || at.called(s.Outputs[0]) == "" || slices.Contains(it.Texts, at.called(s.Outputs[0])) {
		return nil // inside of an island, or one tensor in the file
	}
	return it
}

// inOrder are the inputs of a step; of operators in float as they are met from the output backwards, each as often as it is read.
func inOrder(s *lower.Step) (list []lower.TensorID) {
	island, ok := s.Op.(*lower.Island)
	if !ok || len(island.Graph.Outputs) != 1 {
		return s.Inputs
	}
	g, seen := island.Graph, map[graph.ValueID]bool{}
	var from func(v graph.ValueID)
	from = func(v graph.ValueID) {
		if v == graph.NoValue || seen[v] || g.Producer(v) == graph.NoNode {
			return
		}
		seen[v] = true
		for _, in := range g.Node(g.Producer(v)).Inputs {
			if i := slices.Index(g.Inputs, in); i >= 0 {
				list = append(list, s.Inputs[i])
			} else {
				from(in)
			}
		}
	}
	from(g.Outputs[0])
	return list
}

// called is what a tensor is called in the file; empty where it has none of its own.
func (at *places) called(id lower.TensorID) string {
	if to, ok := at.same[id]; ok {
		id = to
	}
	return at.names[id]
}

// sources adds what the output of a step is computed from by the nodes of the file.
func (r *recoverer) sources(s *lower.Step) {
	want := r.at.sources(r.p, s)
	if want == nil {
		return
	}
	known := map[string]bool{}
	for _, name := range r.at.names {
		known[name] = true
	}
	it := &export.Item{At: want.At, Kind: reads, Texts: []string{}}
	types := &export.Item{At: want.At, Kind: counts, Texts: []string{}}
	note := func(text string) {
		if !slices.Contains(types.Texts, text) {
			types.Texts = append(types.Texts, text)
		}
	}
	seen := map[string]bool{}
	var from func(name string)
	from = func(name string) {
		n := r.producer[name]
		if n == nil || seen[name] { // no file has a circle
			return
		}
		seen[name] = true
		if n.Op != "Transpose" || name == r.at.called(s.Outputs[0]) {
			note(n.text("quant_type"))
			for _, a := range n.Attrs {
				if a.Name == "transB" || a.Name == "input1_layout" {
					note(fmt.Sprintf("%s=%v", a.Name, a.Value))
				}
			}
		}
		for _, in := range n.Inputs {
			switch {
			case r.constants[in] != nil || in == "":
			case known[in]:
				it.Texts = append(it.Texts, in)
			default:
				from(in)
			}
		}
	}
	from(r.at.called(s.Outputs[0]))
	r.held.Add(it)
	if r.at.numbers(r.p, s) != nil {
		slices.Sort(types.Texts)
		r.held.Add(types)
	}
}

package espdl

import (
	"slices"

	"qwb/export"
	"qwb/quantizer/lower"
)

// reads is the kind of an item that says which tensors of the program a step's output is computed from, in their order. Nodes of the file
// that no step has (other layouts, other scales, limits, pads) hand on what they read. Constants are none of them.
const reads export.ItemKind = "what it reads"

// sources are the tensors of the program that a step reads, as the file calls them.
func (at *places) sources(p *lower.Program, s *lower.Step) *export.Item {
	if len(s.Outputs) != 1 || s.Outputs[0] == lower.NoTensor {
		return nil
	}
	it := &export.Item{At: export.StepName(p, s), Kind: reads, Texts: []string{}}
	for _, id := range s.Inputs {
		if id != lower.NoTensor && p.Tensors[id].Const == nil {
			it.Texts = append(it.Texts, at.called(id))
		}
	}
	if slices.Contains(it.Texts, "") || at.called(s.Outputs[0]) == "" || slices.Contains(it.Texts, at.called(s.Outputs[0])) {
		return nil // inside of an island, or one tensor in the file
	}
	return it
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
	seen := map[string]bool{}
	var from func(name string)
	from = func(name string) {
		n := r.producer[name]
		if n == nil || seen[name] { // no file has a circle
			return
		}
		seen[name] = true
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
}

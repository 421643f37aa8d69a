package trt

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"qwb/export"
	"qwb/export/table"
	"qwb/graph"
	"qwb/quantizer/target"
)

// back reads the model, the scales beside it, and PPQ's parameters.
func (k *kind) back(_ context.Context, in *export.Input, out *export.Output) (*export.Readback, error) {
	moved := moves{in: in, own: table.ScalesOf(in)}
	read := func(text []byte, _ *graph.Graph) (list []table.Entry, err error) {
		entries, err := k.parse(text)
		for _, e := range entries {
			if v, ok := in.Model.Graph.Lookup(e.Name); !ok || !moved.lends(v, e.Scale) {
				list = append(list, table.Entry{Name: e.Name, Axis: -1, Scale: []float64{float64(e.Scale)}})
			}
		}
		return list, err
	}
	r, err := table.Back(in, out, []table.File{{Ext: k.suffix, Read: read}}, func(e *table.Encoding, _ string, kind export.ItemKind) string {
		switch {
		case e.Kind.Constant():
			return "encodings of constants, which TensorRT finds itself"
		case kind != export.Scales:
			return "what is the same for all of TensorRT's tensors: bits, zero points"
		}
		return ""
	})
	if err == nil && k.weights {
		err = k.parameters(in, out, r)
	}
	return r, err
}

// moves says which scales the plan gives to tensors that operators which only move elements read or compute.
type moves struct {
	in  *export.Input
	own map[graph.ValueID]float32 // of tensors that the plan encodes
}

// lends reports whether a tensor without an encoding of its own has the scale of one that is moved into it or out of it.
func (m *moves) lends(v graph.ValueID, scale float32) bool {
	g, seen := m.in.Model.Graph, map[graph.ValueID]bool{}
	if _, own := m.own[v]; own {
		return false
	}
	todo := []graph.ValueID{v}
	for len(todo) > 0 {
		at := todo[0]
		if todo = todo[1:]; seen[at] {
			continue
		}
		seen[at] = true
		if s, ok := m.own[at]; ok {
			if math.Float32bits(s) == math.Float32bits(scale) {
				return true
			}
			continue
		}
		todo = append(todo, m.beside(g, at)...)
	}
	return false
}

// beside lists what is moved into a tensor and what it is moved into.
func (m *moves) beside(g *graph.Graph, v graph.ValueID) (list []graph.ValueID) {
	passes := func(id graph.NodeID) bool {
		op, err := m.in.Target.Supports(g, id)
		return err == nil && op.Role == target.Passive
	}
	if id := g.Producer(v); id != graph.NoNode && passes(id) {
		list = append(list, g.Node(id).Inputs[:lastData(g, id)]...)
	}
	for _, u := range g.Uses(v) {
		if u.Index < lastData(g, u.Node) && passes(u.Node) {
			list = append(list, g.Node(u.Node).Outputs...)
		}
	}
	return slices.DeleteFunc(list, func(v graph.ValueID) bool { return v == graph.NoValue })
}

// parameters reads PPQ's text of parameters, by the names that they have in the model that was written.
func (k *kind) parameters(in *export.Input, out *export.Output, r *export.Readback) error {
	name := export.Beside(out.Name(), ".wts")
	text, err := fs.ReadFile(out.FS(), name)
	if err != nil {
		return err
	}
	list, err := parseWeights(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m, err := export.ReadModel(in, out)
	if err != nil {
		return err
	}
	defer m.Close()
	const prefix = ".wts "
	places := table.PlacesOf(in.Model.Graph, m.Graph)
	computing := map[string]bool{}
	for _, id := range in.Model.Graph.Nodes() {
		for i := range in.Model.Graph.Node(id).Inputs {
			computing[export.SlotName(in.Model.Graph.Node(id).Name, i, 0)] = computes(in.Model.Graph, id)
		}
	}
	for _, p := range list {
		at := slices.DeleteFunc(slices.Clone(places[p.name]), func(at string) bool { return !computing[at] })
		if len(at) == 0 {
			at = []string{export.TensorName(p.name)}
		}
		for _, at := range at {
			r.Held.Add(&export.Item{At: prefix + at, Kind: export.Numbers, Floats: p.values})
		}
	}
	wants := r.Held.Wants
	r.Held.Wants = func(in *export.Input, yield func(*export.Item) error) error {
		return wants(in, func(it *export.Item) error {
			if err := yield(it); err != nil || it.Kind != export.Numbers || !computing[it.At] {
				return err
			}
			return yield(&export.Item{At: prefix + it.At, Kind: it.Kind, Floats: it.Floats})
		})
	}
	return nil
}

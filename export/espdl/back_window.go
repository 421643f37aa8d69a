package espdl

import (
	"fmt"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/quantizer/lower"
)

// windowNames are the attributes of operators over windows, in the order of their items.
var windowNames = []string{"kernel_shape", "strides", "pads", "dilations", "group", "ceil_mode", "count_include_pad", "channels"}

// windowOf is what a step over windows has to say in a file: nil where it has none, or no fixed shape.
func windowOf(p *lower.Program, s *lower.Step) *export.Item {
	if s.Node == graph.NoNode {
		return nil
	}
	n := p.Graph.Node(s.Node)
	shape := p.Tensors[s.Inputs[0]].Shape
	values := map[string]any{}
	var geo *graph.Geometry
	var err error
	switch op := s.Op.(type) {
	case *lower.Linear:
		if n.Op != "Conv" || op.Weights == nil {
			return nil
		}
		if geo, err = graph.WindowGeometry(n, shape, graph.Static(op.Weights.Codes.Shape...)); err == nil {
			shape := op.Weights.Codes.Shape
			values["dilations"], values["group"] = graph.Int64s(geo.Dilation), int64(fileGroup(shape[0], shape[1], geo.Group))
			if list := originsOf(n, op); list != nil {
				values["channels"] = list
			}
		}
	case *lower.MaxPool, *lower.Average:
		if n.Op != "MaxPool" && n.Op != "AveragePool" {
			return nil
		}
		if geo, err = graph.PoolGeometry(n, shape); err != nil {
			return nil
		}
		values["ceil_mode"] = n.AttrInt("ceil_mode", 0)
		if n.Op == "AveragePool" {
			values["count_include_pad"] = n.AttrInt("count_include_pad", 0)
		} else if slices.Max(geo.Dilation) > 1 {
			values["dilations"] = graph.Int64s(geo.Dilation)
		}
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	values["kernel_shape"], values["strides"], values["pads"] = graph.Int64s(geo.Kernel), graph.Int64s(geo.Stride),
		slices.Concat(graph.Int64s(geo.PadBegin), graph.Int64s(geo.PadEnd))
	return texts(export.StepName(p, s), n.Op, values)
}

// texts is the item of an operator and its attributes.
func texts(at, op string, values map[string]any) *export.Item {
	it := &export.Item{At: at, Kind: export.Attributes, Texts: []string{op}}
	for _, name := range windowNames {
		if v, ok := values[name]; ok {
			it.Texts = append(it.Texts, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return it
}

// window adds what the node of a step over windows says.
func (r *recoverer) window(s *lower.Step, n *Node) {
	if windowOf(r.p, s) == nil {
		return
	}
	values := map[string]any{}
	for _, a := range n.Attrs {
		values[a.Name] = a.Value
	}
	if p := r.gathered(n); p != nil {
		if c := r.constants[p.Inputs[1]]; c != nil {
			values["channels"], _ = c.integers() // what is missing tells
		}
	}
	r.held.Add(texts(export.StepName(r.p, s), n.Op, values))
}

// gathered is the Gather that repeats the channels of what a convolution reads, nil where there is none.
func (r *recoverer) gathered(n *Node) *Node {
	if len(n.Inputs) == 0 || n.Op != "Conv" {
		return nil
	}
	p := r.producer[n.Inputs[0]]
	if p == nil || p.Op != "Gather" || len(p.Inputs) < 2 || !strings.Contains(n.Inputs[0], "_repeated") {
		return nil
	}
	return p
}

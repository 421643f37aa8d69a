package espdl

import (
	"fmt"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// said is the item of an operator: its type, its attributes by name, and lists of numbers that it reads, by the place of the input.
func said(at, op string, attrs []Attr, lists map[int]any) *export.Item {
	it := &export.Item{At: at, Kind: export.Attributes, Texts: []string{op}}
	for _, a := range attrs {
		if a.Name != "quant_type" && a.Name != "activation" {
			it.Texts = append(it.Texts, fmt.Sprintf("%s=%v", a.Name, a.Value))
		}
	}
	slices.Sort(it.Texts[1:])
	for i := range 8 {
		if list, ok := lists[i]; ok {
			it.Texts = append(it.Texts, fmt.Sprintf("input %d=%v", i, list))
		}
	}
	return it
}

// moveOf is what a step that moves, joins or reduces over axes has to say in a file, with axes as the model counts them; nil for others.
func moveOf(p *lower.Program, s *lower.Step) *export.Item {
	if len(s.Inputs) == 0 || s.Inputs[0] == lower.NoTensor || len(s.Outputs) == 0 || s.Outputs[0] == lower.NoTensor {
		return nil
	}
	at, out := export.StepName(p, s), p.Tensors[s.Outputs[0]].Shape
	in := p.Tensors[s.Inputs[0]].Shape
	reduced := func(op string, axes []int, keep bool) *export.Item {
		list := graph.Int64s(axes)
		slices.Sort(list)
		return said(at, op, []Attr{{"keepdims", map[bool]int64{true: 1}[keep]}}, map[int]any{1: list})
	}
	switch op := s.Op.(type) {
	case *lower.Concat:
		return said(at, "Concat", []Attr{{"axis", int64(op.Axis)}}, nil)
	case *lower.Average:
		if op.Kind == "ReduceMean" {
			return reduced("ReduceMean", op.Axes, op.Keep)
		}
	case *lower.Move:
		n := op.Graph.Node(op.Graph.Nodes()[0])
		numbers := func(i int, attr string) []int64 { return constantList(op.Graph, n, i, attr) }
		switch n.Op {
		case "Reshape", "Flatten", "Squeeze", "Unsqueeze":
			return said(at, "Reshape", []Attr{{"allowzero", int64(0)}}, map[int]any{1: masked(out, sizesOf(out))})
		case "Transpose":
			return said(at, "Transpose", []Attr{{"perm", permOf(n, len(in))}}, nil)
		case "Gather":
			return said(at, "Gather", []Attr{{"axis", n.AttrInt("axis", 0)}}, map[int]any{1: numbers(1, "")})
		case "Slice":
			starts, axes, steps := numbers(1, "starts"), numbers(3, "axes"), numbers(4, "")
			if axes == nil {
				axes = graph.Int64s(straight(len(starts)))
			}
			if steps == nil {
				steps = slices.Repeat([]int64{1}, len(starts))
			}
			return said(at, "Slice", nil, map[int]any{1: starts, 2: numbers(2, "ends"), 3: axes, 4: steps})
		case "Pad":
			return said(at, "Pad", []Attr{{"mode", "constant"}}, map[int]any{1: numbers(1, "pads"), 2: []int64{0}})
		case "Resize":
			return said(at, "Resize", attributes(n), map[int]any{2: ratios(in, out)})
		case "Upsample":
			attrs := []Attr{{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}}
			return said(at, "Resize", attrs, map[int]any{2: ratios(in, out)})
		case "DepthToSpace", "SpaceToDepth":
			return said(at, n.Op, attributes(n), nil)
		case "Split":
			axis, ok := graph.Axis(int(n.AttrInt("axis", 0)), len(in))
			if !ok {
				return nil
			}
			var sizes []int64
			for _, id := range s.Outputs {
				if id != lower.NoTensor && axis < len(p.Tensors[id].Shape) {
					sizes = append(sizes, p.Tensors[id].Shape[axis].N)
				}
			}
			return said(at, "Split", []Attr{{"axis", int64(axis)}}, map[int]any{1: sizes})
		case "ReduceMax", "ReduceMin":
			axes := []int{}
			for _, a := range numbers(1, "axes") {
				axis, _ := graph.Axis(int(a), len(in))
				axes = append(axes, axis)
			}
			if len(axes) == 0 {
				axes = straight(len(in))
			}
			return reduced(n.Op, axes, n.AttrInt("keepdims", 1) != 0)
		}
	}
	return nil
}

// floatOperators visits what the operators say that are computed in float. The axis of a Softmax is counted from the front; one of
// unknown rank is left out.
func floatOperators(op *lower.Island, see func(n *graph.Node, it *export.Item)) {
	for _, id := range op.Graph.Nodes() {
		n := op.Graph.Node(id)
		attrs := attributes(n)
		if softmax(n) {
			axis, _ := graph.SoftmaxAxis(n, op.Graph.Opset(""))
			axis, ok := graph.Axis(axis, len(op.Graph.Value(n.Inputs[0]).Shape))
			if !ok {
				continue
			}
			attrs = slices.DeleteFunc(attrs, func(a Attr) bool { return a.Name == "axis" })
			attrs = append(attrs, Attr{"axis", int64(axis)})
		}
		see(n, said(export.NodeName(n.Name), n.Op, attrs, nil))
	}
}

func permOf(n *graph.Node, rank int) []int64 {
	perm := n.AttrInts("perm")
	if perm == nil {
		perm = graph.Int64s(straight(rank))
		slices.Reverse(perm)
	}
	return perm
}

// constantList is constant input i of a node alone, or the attribute that older versions have in its place.
func constantList(g *graph.Graph, n *graph.Node, i int, attr string) []int64 {
	if t := g.Const(n.Input(i)); t != nil && t.DType == tensor.Int64 {
		return t.I64()
	}
	return n.AttrInts(attr)
}

func sizesOf(s graph.Shape) []int64 {
	list := make([]int64, len(s))
	for i, d := range s {
		list[i] = d.N
	}
	return list
}

// masked is a list of sizes without those that are not fixed, which the sample says.
func masked(s graph.Shape, list []int64) []string {
	var out []string
	for i, x := range list {
		if i < len(s) && !s[i].Known() {
			out = append(out, "?")
			continue
		}
		out = append(out, fmt.Sprint(x))
	}
	return out
}

// ratios are those of sizes by axis; of two that are not fixed 1.
func ratios(in, out graph.Shape) []float32 {
	list := make([]float32, len(in))
	for i := range list {
		if list[i] = 1; i < len(out) && in[i].Known() && out[i].Known() {
			list[i] = float32(out[i].N) / float32(in[i].N)
		}
	}
	return list
}

// moves adds what the node of a step says that moves, joins or reduces, with axes as the model counts them.
func (r *recoverer) moves(s *lower.Step, n *Node) error {
	want := moveOf(r.p, s)
	if want == nil {
		return nil
	}
	out, in := r.at.perms[s.Outputs[0]], r.at.perms[s.Inputs[0]]
	var attrs []Attr
	for _, a := range n.Attrs {
		if axis, ok := a.Value.(int64); a.Name == "axis" && ok && (n.Op == "Concat" || n.Op == "Split") && axis >= 0 && int(axis) < len(out) {
			a.Value = int64(out[axis])
		}
		attrs = append(attrs, a)
	}
	lists := map[int]any{}
	for i, name := range n.Inputs {
		c := r.constants[name]
		if i == 0 || c == nil || n.Op == "Concat" {
			continue
		}
		list, err := c.integers()
		if err != nil {
			return err
		}
		if lists[i] = list; c.Type == float32Type {
			lists[i] = floatsOf(list)
		}
		switch {
		case strings.HasPrefix(n.Op, "Reduce"):
			for k, axis := range list {
				if axis >= 0 && int(axis) < len(in) {
					list[k] = int64(in[axis])
				}
			}
			slices.Sort(list)
		case n.Op == "Reshape":
			lists[i] = masked(r.p.Tensors[s.Outputs[0]].Shape, list)
		case n.Op == "Resize" && len(list) == len(out):
			scales := make([]float32, len(list))
			for k, x := range floatsOf(list) {
				scales[out[k]] = x
			}
			lists[i] = scales
		}
	}
	r.held.Add(said(want.At, n.Op, attrs, lists))
	return nil
}

// liesOf is how a step has to find its input i: the axes of the model by their places; nil where it takes any layout.
func liesOf(p *lower.Program, perms map[lower.TensorID][]int, s *lower.Step, i int) []int {
	rank, out := len(perms[s.Inputs[i]]), perms[s.Outputs[0]]
	switch op := s.Op.(type) {
	case *lower.Linear:
		if i == 0 && s.Node != graph.NoNode && p.Graph.Node(s.Node).Op == "Conv" {
			return channelsLast(rank)
		}
		return straight(rank)
	case *lower.MaxPool:
		return channelsLast(rank)
	case *lower.Average:
		if op.Kind != "ReduceMean" {
			return channelsLast(rank)
		}
	case *lower.Sum, *lower.Product, *lower.Concat:
		if len(out) == rank {
			return out
		}
		return straight(rank)
	case *lower.Move:
		switch op.Name() {
		case "Resize", "Upsample", "DepthToSpace", "SpaceToDepth":
			return channelsLast(rank)
		case "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Slice", "Pad":
			return straight(rank)
		}
	}
	return nil
}

// layouts is what inputs of a step lie as, for those that are computed.
func layouts(p *lower.Program, at *places, s *lower.Step, see func(i int, it *export.Item)) {
	if len(s.Outputs) == 0 || s.Outputs[0] == lower.NoTensor {
		return
	}
	for i, id := range s.Inputs {
		if id == lower.NoTensor || p.Tensors[id].Const != nil || at.perms[id] == nil {
			continue
		}
		if lies := liesOf(p, at.perms, s, i); lies != nil {
			see(i, &export.Item{At: fmt.Sprintf("%s input %d", export.StepName(p, s), i), Kind: export.Attributes,
				Texts: []string{fmt.Sprintf("axes %v", lies)}})
		}
	}
}

// lies adds how the inputs of a step lie: as they were made, or behind a Transpose.
func (r *recoverer) lies(s *lower.Step, n *Node) {
	layouts(r.p, r.at, s, func(i int, it *export.Item) {
		if i >= len(n.Inputs) {
			return // what is missing tells
		}
		name, have := n.Inputs[i], r.at.perms[s.Inputs[i]]
		if p := r.producer[name]; p != nil && p.Op == "RequantizeLinear" && strings.Contains(name, "_rescaled") {
			name = p.Inputs[0]
		}
		if p := r.gathered(n); p != nil && i == 0 {
			name = p.Inputs[0]
		}
		if p := r.producer[name]; name != r.name(s.Inputs[i]) && p != nil && p.Op == "Transpose" && p.Inputs[0] == r.name(s.Inputs[i]) {
			moved := make([]int, len(have))
			for _, a := range p.Attrs {
				perm, _ := a.Value.([]int64)
				for k, from := range perm {
					if k < len(moved) && from >= 0 && int(from) < len(have) {
						moved[k] = have[from]
					}
				}
			}
			have = moved
		}
		it.Texts = []string{fmt.Sprintf("axes %v", have)}
		r.held.Add(it)
	})
}

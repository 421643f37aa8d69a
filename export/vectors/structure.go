package vectors

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/lower"
)

// structure is steps as text, without their numbers: kinds, operators, attributes, windows, types of integers, which operands are
// constants, and how the steps are connected. Left out are the sizes of tensors, weights, biases, scales, zero points, limits and the
// entries of tables. Steps of equal structure run on the same hardware with other numbers.
func structure(p *lower.Program, s span) string {
	var b strings.Builder
	local := map[lower.TensorID]int{} // tensors by first appearance
	name := func(id lower.TensorID) string {
		if id == lower.NoTensor {
			return "_"
		}
		t := &p.Tensors[id]
		if _, ok := local[id]; !ok {
			local[id] = len(local)
		}
		kind := t.DType.String()
		if t.Const != nil {
			kind += " constant"
		}
		return fmt.Sprintf("t%d %s[%d]", local[id], kind, len(t.Shape))
	}
	for _, step := range p.Steps[s.from:s.to] {
		fmt.Fprintf(&b, "%s %s", step.Op.Name(), operation(p, &step))
		for _, id := range step.Nodes {
			b.WriteString(" " + nodeText(p.Graph, id))
		}
		for _, id := range step.Inputs {
			b.WriteString(" <" + name(id))
		}
		for _, id := range step.Outputs {
			b.WriteString(" >" + name(id))
		}
		b.WriteByte('\n')
	}
	_, out := borders(p, s)
	for _, id := range out {
		fmt.Fprintf(&b, "out t%d\n", local[id])
	}
	return b.String()
}

// operation is what the operation of a step says about its structure.
func operation(p *lower.Program, s *lower.Step) string {
	switch op := s.Op.(type) {
	case *lower.Linear:
		text := fmt.Sprintf("bias=%t residual=%t function=%t", op.Bias != nil, op.Residual, op.Func != nil)
		if w := op.Weights; w != nil {
			text += fmt.Sprintf(" weights=%s per-channel=%t", w.Codes.DType, w.PerChannel())
			if graph.Slides(op.Kind) {
				text += fmt.Sprintf(" kernel=%v groups=%s", w.Codes.Shape[2:], groups(p.Graph.Node(s.Node), w.Codes.Shape))
			}
		}
		return text
	case *lower.Table:
		return op.Function
	case *lower.Concat:
		return fmt.Sprintf("axis=%d inputs=%d", op.Axis, len(op.Rescale))
	case *lower.Average:
		return fmt.Sprintf("axes=%v", op.Axes)
	case *lower.Island:
		var ops []string
		for _, id := range op.Graph.Nodes() {
			ops = append(ops, nodeText(op.Graph, id))
		}
		return strings.Join(ops, " ")
	}
	return ""
}

// groups says how a convolution is cut: none, by channel, or into so many groups.
func groups(n *graph.Node, weights []int) string {
	l, _ := graph.LinearOf(n, graph.WeightInput, weights)
	switch {
	case l.Groups == 1:
		return "none"
	case l.Depthwise():
		return "depthwise"
	}
	return fmt.Sprint(l.Groups)
}

// nodeText is an operator with its attributes; the number of groups and the shape of the kernel are the step's.
func nodeText(g *graph.Graph, id graph.NodeID) string {
	n := g.Node(id)
	text := n.Op
	for i := range n.Attrs {
		switch a := &n.Attrs[i]; {
		case a.Name == "group", a.Name == "kernel_shape" && n.Op == "Conv":
		case a.Kind == graph.AttrTensor, a.Kind == graph.AttrGraph: // numbers
			text += " " + a.Name
		default:
			text += fmt.Sprintf(" %s=%d,%g,%s,%v,%v,%s", a.Name, a.I, a.F, a.S, a.Ints, a.Floats, a.Strings)
		}
	}
	return text
}

package rewrite

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// End is a node at which factors begin or end.
type End struct {
	Node graph.NodeID
	// Channel is the channel of the step by the node's own: the output channels of a producer, the input channels of a consumer, the
	// channels of what lies between. -1 has the factor one.
	Channel []int
	axis    int
}

// Way is where the factors of a node's output channels go until weights that take them up again.
type Way struct {
	At       graph.NodeID
	Channels int
	// Producers are the nodes whose output channels are multiplied, At among them: several where values are added. Consumers are those whose
	// weights are divided. Both are in the order of the graph.
	Producers, Consumers []End
	// Bounded are the Clips with an upper bound between them, which becomes one for each channel.
	Bounded []End
	// Values are multiplied, in the order of their numbers.
	Values []graph.ValueID

	constants []constant
}

// constant is an operand of a sum, maximum or minimum on the way.
type constant struct {
	End
	input int
}

// field is the factors of one value.
type field struct {
	axis    int
	channel []int
}

type walker struct {
	g         *graph.Graph
	at        graph.NodeID // where the factors begin
	fields    map[graph.ValueID]*field
	operand   map[graph.NodeID]int // of products: the one that carries the factor
	producers map[graph.NodeID]*field
	consumers map[graph.NodeID]*field
	queue     []graph.ValueID
}

// CanScale finds the way of the output channels of a node: one with weights, a normalization, or a product with a constant. The reason says
// why there is none. Shapes have to be inferred.
func CanScale(g *graph.Graph, id graph.NodeID) (way *Way, reason string) {
	axis, n, err := produces(g, id)
	if a, c, ok := gain(g, id); ok {
		axis, n, err = a, c, nil
	}
	if err != nil {
		return nil, err.Error()
	}
	w := &walker{g: g, at: id, fields: map[graph.ValueID]*field{}, operand: map[graph.NodeID]int{}, producers: map[graph.NodeID]*field{},
		consumers: map[graph.NodeID]*field{}}
	if err := w.join(g.Node(id).Output(0), axis, iota(0, n)); err != nil {
		return nil, err.Error()
	}
	for len(w.queue) > 0 {
		v := w.queue[0]
		w.queue = w.queue[1:]
		if err := w.visit(v); err != nil {
			return nil, err.Error()
		}
	}
	way, err = w.way(id, n)
	if err != nil {
		return nil, err.Error()
	}
	return way, ""
}

// join gives a value factors. What has none so far may get some later, but never others.
func (w *walker) join(v graph.ValueID, axis int, channel []int) error {
	f := w.fields[v]
	if f == nil {
		if !slices.ContainsFunc(channel, func(c int) bool { return c >= 0 }) {
			return nil
		}
		w.fields[v] = &field{axis, slices.Clone(channel)}
		w.queue = append(w.queue, v)
		return nil
	}
	if f.axis != axis {
		return fmt.Errorf("the channels of %q would lie along two axes", w.g.Value(v).Name)
	}
	grew := false
	for i, c := range channel {
		switch {
		case c < 0 || f.channel[i] == c:
		case f.channel[i] < 0:
			f.channel[i], grew = c, true
		default:
			return fmt.Errorf("%q would need two factors for one channel", w.g.Value(v).Name)
		}
	}
	if grew {
		w.queue = append(w.queue, v)
	}
	return nil
}

// visit follows a value to the node that computes it and to those that read it.
func (w *walker) visit(v graph.ValueID) error {
	g, f := w.g, w.fields[v]
	name := g.Value(v).Name
	switch {
	case g.IsOutput(v):
		return fmt.Errorf("%q is an output of the graph", name)
	case g.Captured(v):
		return fmt.Errorf("%q is read inside a subgraph", name)
	case g.Producer(v) == graph.NoNode:
		return fmt.Errorf("%q is given to the graph", name)
	case g.Value(v).DType != tensor.Float32:
		return fmt.Errorf("%q is %s", name, g.Value(v).DType)
	}
	p := g.Producer(v)
	if axis, n, ok := gain(g, p); ok && p == w.at {
		if axis != f.axis || n != len(f.channel) {
			return fmt.Errorf("the channels of %q lie along another axis", name)
		}
		w.producers[p] = f
	} else if axis, n, err := produces(g, p); err == nil && v == g.Node(p).Output(0) && axis == f.axis && n == len(f.channel) {
		w.producers[p] = f
	} else if isProducer(g.Node(p)) && (err != nil || axis == f.axis) {
		return g.ErrorAt("", p, fmt.Errorf("its output channels cannot be multiplied: %w", cmp.Or(err, fmt.Errorf("it has %d", n))))
	} else if err := w.follow(p, v); err != nil {
		return err
	}
	for _, u := range g.Uses(v) {
		end, err := consumes(g, u, f)
		switch {
		case err != nil:
			return g.ErrorAt("", u.Node, err)
		case end:
			w.consumers[u.Node] = f
		default:
			if err := w.follow(u.Node, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow spreads the factors of a value through a node.
func (w *walker) follow(id graph.NodeID, v graph.ValueID) error {
	links, err := w.linksOf(w.g.Node(id), v, w.fields[v].axis)
	if err != nil {
		return w.g.ErrorAt("", id, err)
	}
	// From the finer side to the coarser, then back to the others: an operand can give the result a factor, which another operand needs too.
	for range 2 {
		for _, l := range links {
			if f := w.fields[l.b]; f != nil && f.axis == l.bAxis {
				if err := w.join(l.a, l.aAxis, l.back(f.channel, dim(w.g, l.a, l.aAxis))); err != nil {
					return err
				}
			}
			if f := w.fields[l.a]; f != nil && f.axis == l.aAxis {
				channel := make([]int, len(l.of))
				for j, c := range l.of {
					channel[j] = f.channel[c]
				}
				if err := w.join(l.b, l.bAxis, channel); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// back turns factors of b into those of a. Where channels of b that are one channel of a differ, the factors do not come back equal,
// which the way from a to b finds.
func (l *link) back(channel []int, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = -1
	}
	for j, c := range channel {
		if c >= 0 {
			out[l.of[j]] = c
		}
	}
	return out
}

// way collects what was found.
func (w *walker) way(at graph.NodeID, n int) (*Way, error) {
	g := w.g
	way := &Way{At: at, Channels: n}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		node := g.Node(id)
		if f := w.producers[id]; f != nil {
			way.Producers = append(way.Producers, End{id, f.channel, f.axis})
		} else if f := w.fields[node.Output(0)]; node.Output(0) != graph.NoValue && f != nil {
			if err := way.between(g, node, f); err != nil {
				return nil, g.ErrorAt("", id, err)
			}
		}
		if f := w.consumers[id]; f != nil {
			way.Consumers = append(way.Consumers, End{id, f.channel, f.axis})
		}
	}
	for v := range w.fields {
		way.Values = append(way.Values, v)
	}
	slices.Sort(way.Values)
	return way, nil
}

// between notes what has to change in a node on the way.
func (way *Way) between(g *graph.Graph, n *graph.Node, f *field) error {
	switch n.Op {
	case "Clip":
		if _, finite, err := zeroClip(g, n); err != nil {
			return err
		} else if finite {
			way.Bounded = append(way.Bounded, End{n.ID, f.channel, f.axis})
		}
	case "Add", "Sub", "Sum", "Mean", "Max", "Min":
		for i, v := range n.Inputs {
			t := g.Const(v)
			if t == nil {
				continue
			}
			along := aligned(g, v, n.Output(0), f.axis)
			if t.DType != tensor.Float32 || along >= 0 && t.Shape[along] != 1 && t.Shape[along] != len(f.channel) {
				return fmt.Errorf("its constant %s cannot be multiplied", t.Type())
			}
			way.constants = append(way.constants, constant{End{n.ID, f.channel, f.axis}, i})
		}
	}
	return nil
}

// isProducer reports whether a node computes its output by weights or by a gain of its own.
func isProducer(n *graph.Node) bool {
	switch n.Op {
	case "Conv", "ConvTranspose", "Gemm", "BatchNormalization", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
		"InstanceNormalization", "GroupNormalization":
		return true
	}
	return false
}

// produces is the axis and the number of output channels of a node that can multiply them; the error says why it cannot.
func produces(g *graph.Graph, id graph.NodeID) (axis, n int, err error) {
	node := g.Node(id)
	inputs := 2 // one behind the last of gain and offset
	switch node.Op {
	case "Conv", "ConvTranspose", "Gemm", "MatMul":
		m, err := matrixOf(g, id)
		if err != nil {
			return 0, 0, err
		}
		if _, ok := m.bias(g); !ok {
			return 0, 0, fmt.Errorf("the bias of %s is not one constant", node.Op)
		}
		return m.outAxis, m.Out, nil
	case "BatchNormalization":
		if err := inference(g, node); err != nil {
			return 0, 0, err
		}
		axis, inputs = 1, 3
	case "InstanceNormalization":
		axis, inputs = 1, 3
	case "GroupNormalization":
		if axis, inputs = 1, 3; g.Opset("") < 21 {
			return 0, 0, fmt.Errorf("GroupNormalization of opset %d scales groups, not channels", g.Opset(""))
		}
	case "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization":
		rank := len(g.Value(node.Input(0)).Shape)
		if a := node.Axis(); rank == 0 || a != -1 && a != rank-1 {
			return 0, 0, fmt.Errorf("%s is over more than the last axis", node.Op)
		}
		if axis = rank - 1; node.Op == "LayerNormalization" {
			inputs = 3
		}
	default:
		return 0, 0, fmt.Errorf("%s has no weights that could be multiplied", node.Op)
	}
	if !node.IsONNX() {
		return 0, 0, fmt.Errorf("%s is of domain %s", node.Op, node.Domain)
	}
	n = dim(g, node.Output(0), axis)
	for i := 1; i < inputs; i++ {
		v := node.Input(i)
		if v == graph.NoValue && i == 2 {
			continue
		}
		if t := g.Const(v); t == nil || t.DType != tensor.Float32 || len(t.Shape) != 1 || t.Shape[0] != n {
			return 0, 0, fmt.Errorf("input %d of %s is not a constant of each channel", i, node.Op)
		}
	}
	return axis, n, nil
}

// gain is the axis and the number of channels of a product with a constant, or of a quotient by one, which can take factors up where a way
// begins: axis 1 of images and volumes, else the last.
func gain(g *graph.Graph, id graph.NodeID) (axis, n int, ok bool) {
	node := g.Node(id)
	input := gainInput(g, node)
	if input < 0 {
		return 0, 0, false
	}
	t, y := g.Const(node.Input(input)), g.Value(node.Output(0))
	if axis = 1; len(y.Shape) < 4 {
		axis = len(y.Shape) - 1
	}
	n = dim(g, y.ID, axis)
	along := aligned(g, node.Input(input), y.ID, axis)
	return axis, n, n > 0 && len(t.Shape) <= len(y.Shape) && (along < 0 || t.Shape[along] == 1 || t.Shape[along] == n)
}

// gainInput is the constant operand of a product or quotient that can take factors up, -1 where there is none.
func gainInput(g *graph.Graph, n *graph.Node) int {
	if !n.IsONNX() || n.Op != "Mul" && n.Op != "Div" || g.Opset("") < 7 {
		return -1
	}
	for _, i := range []int{1, 0} {
		if t := g.Const(n.Input(i)); t != nil && t.DType == tensor.Float32 && g.Const(n.Input(1-i)) == nil && (i == 1 || n.Op == "Mul") {
			return i
		}
	}
	return -1
}

// inference refuses a normalization that computes its own statistics.
func inference(g *graph.Graph, n *graph.Node) error {
	if !n.PerChannelInference(g.Opset("")) {
		return fmt.Errorf("BatchNormalization in training mode or with statistics per element")
	}
	return nil
}

// consumes reports whether a reader takes up the factors of a value in weights of its own.
func consumes(g *graph.Graph, u graph.Use, f *field) (bool, error) {
	n := g.Node(u.Node)
	switch n.Op {
	case "Conv", "ConvTranspose", "Gemm", "MatMul":
		m, err := matrixOf(g, u.Node)
		if err != nil {
			return false, err
		}
		if u.Index != m.data || m.In != len(f.channel) || m.inAxis != f.axis {
			if n.Op == "MatMul" && u.Index == m.data && f.axis != m.inAxis {
				return false, nil
			}
			return false, fmt.Errorf("%d channels along axis %d do not meet its %d input channels", len(f.channel), f.axis, m.In)
		}
		return true, nil
	case "BatchNormalization":
		if u.Index != 0 || f.axis != 1 {
			return false, fmt.Errorf("BatchNormalization reads it as a statistic")
		}
		if _, _, err := produces(g, u.Node); err != nil {
			return false, err
		}
		if t := g.Const(n.Input(3)); t == nil || t.DType != tensor.Float32 || len(t.Shape) != 1 || t.Shape[0] != len(f.channel) {
			return false, fmt.Errorf("the mean is not a constant of each channel")
		}
		return true, nil
	}
	return false, nil
}

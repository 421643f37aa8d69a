// Package table says what a plan means for each tensor, by name: for formats that are a float model and a list of encodings beside it.
//
// Unstable: it may change without notice.
package table

import (
	"fmt"
	"math"
	"slices"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Kind is the part that a tensor plays.
type Kind uint8

const (
	Input      Kind = iota // of the model
	Activation             // computed
	Weight                 // a constant, but for a bias
	Bias                   // input 2 of a weighted operator
)

// Constant reports whether the tensor is one.
func (k Kind) Constant() bool { return k >= Weight }

// Tensor is one tensor of float32 of the graph, and what the plan says of it.
type Tensor struct {
	Name  string
	Value graph.ValueID
	Kind  Kind
	Node  graph.NodeID // that computes it; of an input and a constant the first that reads it
	// Config and Params are its encoding, nil where it stays float. They are shared and must not be changed.
	Config *tqc.Config
	Params *tqc.Params
	Domain tqc.Domain // of Node where it stays float
	// Root is the slot whose encoding it is.
	Root tqc.SlotID
	// Uses are the inputs that read a copy of a constant, which other operators want with another encoding; nil: it is no copy.
	Uses []graph.Use
}

// Encoded reports whether the tensor is quantized.
func (t *Tensor) Encoded() bool { return t.Config != nil }

// Grid is the grid of channel c.
func (t *Tensor) Grid(c int) qmath.Grid { return t.Params.Grid(t.Config, c) }

// Range is what channel c can stand for, exactly: float64 holds a float32 times up to 29 bits.
func (t *Tensor) Range(c int) (lo, hi float64) {
	g := t.Grid(c)
	return float64(g.Scale) * (float64(t.Config.QMin) - float64(g.ZeroPoint)),
		float64(g.Scale) * (float64(t.Config.QMax) - float64(g.ZeroPoint))
}

// Of lists every tensor of float32 that an operator reads or computes as data, each once: inputs of the model, then in order of the nodes
// what they read of constants and what they compute. Of a constant that operators want with different encodings there is a copy for each (a
// bias of two convolutions). It is an error where they want them of one computed tensor, which a list by name cannot say, where the scale
// is computed at run time, and where two tensors have one name. Operators in float read a copy of a constant that others want quantized:
// one without encoding, of the numbers as they are.
func Of(in *export.Input) ([]Tensor, error) {
	g := in.Model.Graph
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	l := &lister{g: g, set: in.Set, at: map[graph.ValueID]int{}}
	for _, v := range g.Inputs {
		if g.Const(v) == nil && target.IsFloat(g, v) {
			first := graph.NoNode
			if uses := g.Uses(v); len(uses) > 0 {
				first = uses[0].Node
			}
			l.add(v, Input, first)
		}
	}
	for _, id := range order {
		n := g.Node(id)
		for _, i := range target.DataInputs(g, id) {
			v := n.Inputs[i]
			if g.Const(v) != nil {
				kind := Weight
				if spec := n.Spec(); i == 2 && spec != nil && spec.Kind == graph.KindComputing {
					kind = Bias
				}
				l.add(v, kind, id)
			}
			if err := l.encode(v, in.Set.Input(id, i), id, i); err != nil {
				return nil, err
			}
		}
		for i, v := range n.Outputs {
			if v == graph.NoValue || !target.DataOutput(g, id, i) {
				continue
			}
			l.add(v, Activation, id)
			if err := l.encode(v, in.Set.Output(id, i), id, -1); err != nil {
				return nil, err
			}
		}
	}
	for i := range l.list {
		l.floats(i)
	}
	seen := map[string]bool{}
	for i := range l.list {
		if t := &l.list[i]; seen[t.Name] {
			return nil, g.ErrorAt("export", t.Node, fmt.Errorf("two tensors are called %q", t.Name))
		} else {
			seen[t.Name] = true
		}
	}
	return l.list, nil
}

type lister struct {
	g    *graph.Graph
	set  *tqc.Set
	list []Tensor
	at   map[graph.ValueID]int
}

func (l *lister) add(v graph.ValueID, kind Kind, id graph.NodeID) {
	if _, ok := l.at[v]; ok {
		return
	}
	t := Tensor{Name: l.g.Value(v).Name, Value: v, Kind: kind, Node: id, Root: tqc.NoSlot}
	if id != graph.NoNode {
		t.Domain = l.set.Domains[id]
	}
	l.at[v] = len(l.list)
	l.list = append(l.list, t)
}

// encode gives a tensor the encoding of one of its slots.
func (l *lister) encode(v graph.ValueID, slot tqc.SlotID, id graph.NodeID, input int) error {
	i, ok := l.at[v]
	if !ok || slot == tqc.NoSlot {
		return nil
	}
	t, root := &l.list[i], l.set.Root(slot)
	s, r := l.set.Slot(slot), l.set.Slot(root)
	config := &s.Config
	switch {
	case s.State() == tqc.FP32 || s.State() == tqc.Initial || s.State() == tqc.PassiveInit:
		return nil
	case s.State() == tqc.Overlapped:
		config = &r.Config
	}
	if config.RunTime() {
		return l.g.ErrorAt("export", id, fmt.Errorf("the scale of %q is computed at run time", t.Name))
	}
	params := l.set.Params(root)
	if !params.Ready() {
		return nil
	}
	if t.Encoded() && !same(t.Config, t.Params, config, params) && t.Kind.Constant() {
		l.copied(i, config, params, root, graph.Use{Node: id, Index: input})
		return nil
	}
	if t.Encoded() && !same(t.Config, t.Params, config, params) {
		return l.g.ErrorAt("export", id, fmt.Errorf("%q is quantized in two ways, %s here and %s elsewhere: a list by name holds one", t.Name,
			words(config, params), words(t.Config, t.Params)))
	}
	if !t.Encoded() {
		t.Config, t.Params, t.Root = config, params, root
	}
	return nil
}

// copied makes an input read a copy of constant i that has the encoding.
func (l *lister) copied(i int, config *tqc.Config, params *tqc.Params, root tqc.SlotID, use graph.Use) {
	of := l.list[i]
	n := 2
	for k := range l.list {
		if c := &l.list[k]; c.Value == of.Value && c.Uses != nil {
			if same(c.Config, c.Params, config, params) {
				c.Uses = append(c.Uses, use)
				return
			}
			n++
		}
	}
	of.Node, of.Config, of.Params, of.Root, of.Uses = use.Node, config, params, root, []graph.Use{use}
	l.copy(of, fmt.Sprint(n))
}

// copy adds a copy of a constant.
func (l *lister) copy(of Tensor, suffix string) {
	of.Name += "_" + suffix
	for _, taken := l.g.Lookup(of.Name); taken; _, taken = l.g.Lookup(of.Name) {
		of.Name += "_"
	}
	l.list = append(l.list, of)
}

// floats makes operators in float read a copy of constant i.
func (l *lister) floats(i int) {
	of := l.list[i]
	if !of.Kind.Constant() || !of.Encoded() || of.Uses != nil {
		return
	}
	for _, u := range l.g.Uses(of.Value) {
		if c, _ := encoded(l.set, l.set.Input(u.Node, u.Index)); c == nil {
			of.Uses = append(of.Uses, u)
		}
	}
	if of.Uses != nil {
		of.Node, of.Domain = of.Uses[0].Node, l.set.Domains[of.Uses[0].Node]
		of.Config, of.Params, of.Root = nil, nil, tqc.NoSlot
		l.copy(of, "float")
	}
}

// same reports whether two encodings give the same integers and stand for the same numbers.
func same(a *tqc.Config, p *tqc.Params, b *tqc.Config, q *tqc.Params) bool {
	return a.Format == b.Format && a.Axis == b.Axis && a.GroupSize == b.GroupSize && a.Rounding == b.Rounding &&
		slices.Equal(p.Scale, q.Scale) && slices.Equal(p.ZeroPoint, q.ZeroPoint)
}

func words(c *tqc.Config, p *tqc.Params) string {
	g := p.Grid(c, 0)
	return fmt.Sprintf("%s with scale %g and zero point %d", c.FormatName(), g.Scale, g.ZeroPoint)
}

// Baked returns the model with every quantized constant replaced by the numbers that its integers stand for, so that whoever quantizes it
// again with its encoding gets the same integers, however he rounds. A constant whose numbers float32 cannot hold that closely, and one of
// integers beyond 24 bits, is as near as float32 is.
func Baked(in *export.Input, list []Tensor) (*graph.Graph, error) {
	out := in.Model.Graph.Clone()
	for i := range list {
		t := &list[i]
		if !t.Kind.Constant() || !t.Encoded() && t.Uses == nil {
			continue
		}
		w := in.Model.Graph.Const(t.Value)
		if t.Encoded() {
			var err error
			if w, err = numbers(w, t.Config, t.Params); err != nil {
				return nil, in.Model.Graph.ErrorAt("export", t.Node, err)
			}
		}
		if t.Uses == nil {
			out.SetConst(t.Value, w)
			continue
		}
		v := out.AddConst(t.Name, w)
		for _, u := range t.Uses {
			out.SetInput(u.Node, u.Index, v)
		}
	}
	return out, nil
}

func numbers(x *tensor.Tensor, c *tqc.Config, p *tqc.Params) (*tensor.Tensor, error) {
	codes, err := tqc.Quantize(x, c, p)
	if err != nil {
		return nil, err
	}
	out, list := tensor.New(tensor.Float32, x.Shape...), codes
	err = tqc.Runs(x, c, p, func(from, to int, codec qmath.Codec) bool {
		codec.DequantizeSlice(out.F32()[from:to], list[from:to])
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, v := range out.F32() {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("a constant of %s leaves float32", c.FormatName())
		}
	}
	return out, nil
}

// WriteModel writes the float model with Baked constants, and says in it where it is from.
func WriteModel(in *export.Input, list []Tensor, out *export.Output) error {
	g, err := Baked(in, list)
	if err != nil {
		return err
	}
	return WriteGraph(in, withoutConstants(g), out)
}

// withoutConstants takes constants from the inputs of a graph, as old exporters have them: readers that fold constants take them for none.
func withoutConstants(g *graph.Graph) *graph.Graph {
	g.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v graph.ValueID) bool { return g.Const(v) != nil })
	return g
}

// WriteGraph writes a graph that was made of the model, and says in it where it is from.
func WriteGraph(in *export.Input, g *graph.Graph, out *export.Output) error {
	if g.Name == "" {
		g.Name = "main" // ONNX wants a name
	}
	m := in.Model.WithGraph(g)
	m.ProducerName, m.ProducerVersion, m.IRVersion = in.Producer, in.Version, 0 // the lowest that carries the graph
	for _, kv := range in.Metadata {
		m.Metadata = slices.DeleteFunc(m.Metadata, func(o onnx.KeyValue) bool { return o.Key == kv.Key })
		m.Metadata = append(m.Metadata, kv)
	}
	return export.WriteModel(m, in, out)
}

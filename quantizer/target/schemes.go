package target

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/quantizer/tqc"
)

// Schemes lists the schemes that a target can compute with, by what is quantized. The first of a list is the default. Of an
// operator, an empty list is the target's; of a target, an empty list has the scheme of its policy alone.
type Schemes struct {
	Weight, Activation, Bias []tqc.Scheme
}

// schemesOf reads the schemes of a table of this package, by their texts; a test holds all of them to be there.
func schemesOf(texts ...string) []tqc.Scheme {
	list := make([]tqc.Scheme, len(texts))
	for i, text := range texts {
		list[i], _ = tqc.ParseScheme(text)
	}
	return list
}

// SchemesOf returns the schemes that a node may have; no list is empty but that of a bias that stays float.
func (t *Target) SchemesOf(n *graph.Node) Schemes { return t.schemesOf(t.Op(n)) }

// schemesOf are those of a row, nil for none.
func (t *Target) schemesOf(op *Op) Schemes {
	s := t.Defaults()
	if op != nil {
		for _, l := range []struct{ to, of *[]tqc.Scheme }{{&s.Weight, &op.Schemes.Weight}, {&s.Activation, &op.Schemes.Activation},
			{&s.Bias, &op.Schemes.Bias}} {
			if len(*l.of) > 0 {
				*l.to = *l.of
			}
		}
	}
	return s
}

// Defaults returns the schemes of nodes whose operator has none of its own, in the same way.
func (t *Target) Defaults() Schemes {
	s := t.Schemes
	for _, l := range []struct {
		to     *[]tqc.Scheme
		policy *tqc.Config
	}{{&s.Weight, &t.Weight}, {&s.Activation, &t.Activation}, {&s.Bias, &t.Bias}} {
		if len(*l.to) > 0 || l.policy.Bits == 0 {
			continue
		}
		if own, err := tqc.SchemeOf(*l.policy); err == nil {
			*l.to = []tqc.Scheme{own}
		}
	}
	return s
}

// Can reports why a scheme is not in a list of SchemesOf; what names the list.
func Can(list []tqc.Scheme, s tqc.Scheme, what string) error {
	switch {
	case slices.Contains(list, s):
		return nil
	case len(list) == 0:
		return fmt.Errorf("%s stay float", what)
	}
	var words []string
	for _, l := range list {
		words = append(words, l.String())
	}
	return fmt.Errorf("%s cannot be %s: one of %s", what, s, strings.Join(words, ", "))
}

// ActivationConfig returns the policy of the activations of a node.
func (t *Target) ActivationConfig(n *graph.Node) tqc.Config {
	op := t.Op(n)
	if op == nil || len(op.Schemes.Activation) == 0 || op.Schemes.Activation[0] == t.Defaults().Activation[0] {
		return t.Activation.OfActivation()
	}
	return under(op.Schemes.Activation[0], t.Activation).OfActivation()
}

// under applies a scheme of a valid target, which cannot fail.
func under(s tqc.Scheme, c tqc.Config) tqc.Config {
	out, err := s.Apply(c)
	if err != nil {
		return c
	}
	return out
}

// WeightConfig returns the policy of constant input i of a Weighted node: the node's default scheme, in the range ReducedWeight where the
// row says so; of a first factor that is to be unsigned that of activations. Scales per channel lie along the axis of the output channels,
// those of groups along the axis that is summed; where the operator has no such axis, there is one scale.
func (t *Target) WeightConfig(g *graph.Graph, id graph.NodeID, i int) tqc.Config {
	c, op := t.Weight, t.Op(g.Node(id))
	if op != nil && op.UnsignedFirst && i == 0 {
		first := t.Activation
		first.Observer = c.Observer
		return first
	}
	if op != nil && len(op.Schemes.Weight) > 0 && op.Schemes.Weight[0] != t.Defaults().Weight[0] {
		c = under(op.Schemes.Weight[0], c)
	}
	if t.Reduces(g, id) {
		c.QMin, c.QMax = t.ReducedWeight[0], t.ReducedWeight[1]
	}
	return AlongWeight(g, id, i, c)
}

// AlongWeight fills in the axis of the scales of constant input i of a Weighted node.
func AlongWeight(g *graph.Graph, id graph.NodeID, i int, c tqc.Config) tqc.Config {
	axis, ok := OutputAxis(g, g.Node(id), i)
	if ok && c.Policy.Has(tqc.PerGroup) {
		if axis, ok = 1-axis, !g.Node(id).Conv().Transposed; graph.IsRecurrent(g.Node(id)) { // groups lie along the input channels of one group
			axis, ok = 2, true
		}
	}
	if !ok || c.Policy.Has(tqc.PerTensor) {
		c.Policy, c.Axis, c.GroupSize = c.Policy&^(tqc.PerChannel|tqc.PerGroup)|tqc.PerTensor, 0, 0
		return c
	}
	c.Axis = axis
	return c
}

// AlongActivation fills in the axis of the groups of computed input i of a Weighted node: that along which the node sums, of convolutions
// the channels; of what is not known the last one.
func AlongActivation(g *graph.Graph, id graph.NodeID, i int, c tqc.Config) tqc.Config {
	if !c.Policy.Has(tqc.PerGroup) {
		return c
	}
	n := g.Node(id)
	c.Axis = -1
	if axis, ok := graph.InAxis(n, i, len(g.Value(n.Input(i)).Shape)); ok {
		c.Axis = axis
	}
	return c
}

// AlongChannels reports whether a constant of this shape, broadcast to v, has a number for each output channel of the operator with weights
// that v comes from, by itself or through activations.
func AlongChannels(g *graph.Graph, v graph.ValueID, shape []int) bool {
	x := g.Value(v).Shape
	p := g.Producer(v)
	for p != graph.NoNode && g.Node(p).Spec() != nil && g.Node(p).Spec().Kind == graph.KindActivation {
		p = g.Producer(g.Node(p).Input(0))
	}
	if p == graph.NoNode || len(x) == 0 || len(shape) > len(x) {
		return false
	}
	axis := len(x) - 1
	if graph.Slides(g.Node(p).Op) {
		axis = 1
	}
	first := len(x) - len(shape)
	if g.Opset("") < 7 && len(shape) == 1 {
		first = 1 // as PRelu had it
	}
	for i, d := range shape {
		if d != 1 && (first+i != axis || x[axis].N != int64(d)) {
			return false
		}
	}
	return true
}

// WeightInputs are the inputs of a node that hold weights: one of those that sum products once, W and R of LSTM, GRU and RNN.
func WeightInputs(n *graph.Node) []int {
	if graph.IsRecurrent(n) {
		return []int{graph.WeightInput, graph.RecurrenceInput}
	}
	return []int{graph.WeightInput}
}

// OutputAxis returns the axis of a constant input of a Weighted operator that becomes the channel axis of its output, and
// false where there is none that one row of scales can follow.
func OutputAxis(g *graph.Graph, n *graph.Node, i int) (axis int, ok bool) {
	v := n.Input(i)
	if v == graph.NoValue || !slices.Contains(WeightInputs(n), i) {
		return 0, false
	}
	rank := len(g.Value(v).Shape)
	if graph.IsRecurrent(n) {
		return 1, rank == 3
	}
	axis, ok = graph.OutAxis(n, rank)
	return axis, ok && (rank == 2 || graph.Slides(n.Op)) // a stack of matrices would need a row of scales for each
}

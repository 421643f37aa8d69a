package workbench

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Schemes are those that the target can compute all selected operators with, as set takes them.
type Schemes struct {
	Weights     []string `json:"weights"`
	Activations []string `json:"activations"`
}

func (b *Bench) schemes(_ context.Context, q selection) (*Schemes, error) {
	sel, err := q.selector()
	if err != nil {
		return nil, err
	}
	o, end, err := b.open()
	if err != nil {
		return nil, err
	}
	defer end()
	nodes, err := decision.Nodes(o.Graph, sel)
	if err != nil {
		return nil, err
	}
	bound, err := o.Target.Bind(o.Graph)
	if err != nil {
		return nil, err
	}
	var weights, activations [][]tqc.Scheme
	for _, id := range nodes {
		can := bound.SchemesOf(o.Graph.Node(id))
		activations = append(activations, can.Activation)
		if s := o.tensors.Weight(id); s != tqc.NoSlot {
			weights = append(weights, slices.DeleteFunc(slices.Clone(can.Weight), func(s tqc.Scheme) bool {
				return !lies(o.Graph, id, s, bound.Weight)
			}))
		}
	}
	return &Schemes{common(weights), common(activations)}, nil
}

// lies reports whether the scales of a weight can lie as a scheme says.
func lies(g *graph.Graph, id graph.NodeID, s tqc.Scheme, c tqc.Config) bool {
	c, err := s.Apply(c)
	return err == nil && (!target.AlongWeight(g, id, graph.WeightInput, c).Policy.Has(tqc.PerTensor) || !s.Channel && s.Group == 0)
}

// common are the texts of what all lists have.
func common(lists [][]tqc.Scheme) []string {
	names := []string{}
	for i, list := range lists {
		for _, s := range list {
			if i == 0 && !slices.ContainsFunc(lists, func(other []tqc.Scheme) bool { return !slices.Contains(other, s) }) {
				names = append(names, s.String())
			}
		}
	}
	return names
}

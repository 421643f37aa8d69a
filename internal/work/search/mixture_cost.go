package search

import (
	"context"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/analysis/assign"
	"qwb/graph"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
)

// Measured are the units with errors and costs for the solver. analyze returns the losses of every operator, by output and part, when it
// alone has the format that it has in a derived plan. What a unit costs is what its operators cost, and in float the conversions at its
// borders.
func (m *Mixture) Measured(ctx context.Context, base []decision.Decision, what Costing,
	analyze func(ctx context.Context, format string, out *planning.Derived) (map[graph.NodeID][]float64, error)) ([]assign.Unit, error) {
	units := make([]assign.Unit, len(m.Units))
	for i, u := range m.Units {
		units[i] = assign.Unit{Name: m.Start.Graph.Node(u.Nodes[0]).Name, Options: make([]assign.Option, len(u.Options))}
		if n := len(u.Nodes); n > 1 {
			units[i].Name += fmt.Sprintf(" and %d more", n-1)
		}
		for k, o := range u.Options {
			units[i].Options[k].Name = o.Format
		}
	}
	fill := func(choice []int, first bool, format string, out *planning.Derived) error {
		var losses map[graph.NodeID][]float64
		if format != string(decision.FP32) {
			var err error
			if losses, err = analyze(ctx, format, out); err != nil {
				return err
			}
		}
		costs, err := analysis.NodeCosts(out.Graph, out.Set, what.Device)
		if err != nil {
			return err
		}
		for i, u := range m.Units {
			if k := choice[i]; k > 0 || first {
				o := &units[i].Options[k]
				for _, id := range u.Nodes {
					o.Parts = added(o.Parts, losses[id])
					for _, member := range m.Start.Set.Together(id, m.Bound.Order) {
						o.Cost += what.node(costs[member])
					}
					if u.Options[k].Each[0].Domain != "" {
						o.Cost += what.Conversions(m.D.Target, m.Elements(id))
					}
				}
			}
		}
		return nil
	}
	if err := fill(make([]int, len(m.Units)), true, "", m.Start); err != nil {
		return nil, err
	}
	for _, f := range m.formats {
		choice, some := m.all(f.name)
		if !some {
			if !slices.ContainsFunc(m.Units, func(u MixedUnit) bool { return u.Options[0].Format == f.name }) {
				m.note("format %s is left out: no operator can have it on %s", f.name, m.D.Target.Name)
			}
			continue
		}
		out, _, err := m.Derive(ctx, base, "", choice)
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", f.name, err)
		}
		if m.refuse != nil {
			if err := m.refuse(out); err != nil {
				m.note("format %s is left out: %v", f.name, err)
				for i, k := range choice {
					if k > 0 {
						m.Units[i].Options, units[i].Options = slices.Delete(m.Units[i].Options, k, k+1), slices.Delete(units[i].Options, k, k+1)
					}
				}
				continue
			}
		}
		if err := fill(choice, false, f.name, out); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// added adds a list to another; nil is one of zeros.
func added(to, list []float64) []float64 {
	if to == nil && list != nil {
		to = make([]float64, len(list))
	}
	for i, x := range list {
		to[i] += x
	}
	return to
}

// Elements is the size of the tensors that an operator, with what is fused to it, reads and writes; dimensions that are not known count as
// 1.
func (m *Mixture) Elements(id graph.NodeID) (n int64) {
	g := m.Start.Graph
	together := m.Start.Set.Together(id, m.Bound.Order)
	values := slices.Clone(g.Node(together[len(together)-1]).Outputs)
	for _, i := range target.DataInputs(g, id) {
		if v := g.Node(id).Input(i); g.Const(v) == nil {
			values = append(values, v)
		}
	}
	for _, v := range values {
		if target.IsFloat(g, v) {
			size := int64(1)
			for _, d := range g.Value(v).Shape {
				if d.Known() {
					size *= d.N
				}
			}
			n += size
		}
	}
	return n
}

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

// Candidate is a plan in which every unit that can has a format; the first of a list is the plan as it is, without one.
type Candidate struct {
	Format string
	Out    *planning.Derived

	choice []int
}

// Measured are the units with errors and costs for the solver. analyze returns, by candidate, the losses of every operator, by output and
// part, when it alone has the format that it has there; it is not asked about float32. What a unit costs is what its operators cost, and in
// float the conversions at its borders.
func (m *Mixture) Measured(ctx context.Context, base []decision.Decision, what Costing,
	analyze func(ctx context.Context, list []Candidate) ([]map[graph.NodeID][]float64, error)) ([]assign.Unit, error) {
	list, err := m.candidates(ctx, base)
	if err != nil {
		return nil, err
	}
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
	asked := slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool { return c.Format == string(decision.FP32) })
	losses, err := analyze(ctx, asked)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		var of map[graph.NodeID][]float64
		if k := slices.IndexFunc(asked, func(a Candidate) bool { return a.Out == c.Out }); k >= 0 {
			of = losses[k]
		}
		if err := m.fill(units, &c, what, of); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// candidates derives the plans of all formats. One that cannot be exported is left out, and so is its option of each unit.
func (m *Mixture) candidates(ctx context.Context, base []decision.Decision) ([]Candidate, error) {
	list := []Candidate{{Out: m.Start, choice: make([]int, len(m.Units))}}
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
				for i, k := range choice { // options behind it, of later formats, move up
					if k > 0 {
						m.Units[i].Options = slices.Delete(m.Units[i].Options, k, k+1)
					}
				}
				continue
			}
		}
		list = append(list, Candidate{f.name, out, choice})
	}
	return list, nil
}

// fill gives the options that a candidate chooses their errors and costs.
func (m *Mixture) fill(units []assign.Unit, c *Candidate, what Costing, losses map[graph.NodeID][]float64) error {
	costs, err := analysis.NodeCosts(c.Out.Graph, c.Out.Set, m.D.Target, what.Device)
	if err != nil {
		return err
	}
	for i, u := range m.Units {
		k := c.choice[i]
		if k == 0 && c.Format != "" {
			continue
		}
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
	return nil
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

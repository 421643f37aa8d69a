package search

import (
	"context"

	"qwb/graph"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
)

// InFormat is a plan in which every operator that can has a format.
type InFormat struct {
	Format string
	Out    *planning.Derived
	Nodes  []graph.NodeID // that have it
}

// InFormats are the plans in which a search in formats (see Options) measures the operators of a plan, nodes being those that it ranks. A
// format that no operator can have or that cannot be exported is left out, and the user is told; so is float32, in which there is no error.
func InFormats(ctx context.Context, c *planning.Change, nodes []graph.NodeID, formats []string) (plans []InFormat, err error) {
	list, err := ParseFormats(formats)
	if err != nil {
		return nil, err
	}
	m, err := NewMixture(c.Derivation, c.Was, nodes, list)
	if err != nil {
		return nil, err
	}
	m.note, m.refuse = c.Note, c.Exportable
	candidates, err := m.candidates(ctx, c.Planned.Plan.Decisions)
	if err != nil {
		return nil, err
	}
	for _, x := range candidates[1:] {
		if x.Format == string(decision.FP32) {
			continue
		}
		p := InFormat{Format: x.Format, Out: x.Out}
		for i, k := range x.choice {
			for j, id := range m.Units[i].Nodes {
				if k > 0 && !m.Units[i].Options[k].Each[j].Empty() {
					p.Nodes = append(p.Nodes, id)
				}
			}
		}
		plans = append(plans, p)
	}
	return plans, nil
}

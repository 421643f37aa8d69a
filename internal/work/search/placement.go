package search

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// placed is a choice with what follows from it.
type placed struct {
	*planning.Derived
	decisions []decision.Decision
}

// goalText is what decisions say of the goal.
func (s *searcher) goalText() string {
	if s.o.MaxCost != nil {
		if s.o.Costing.name() == "time" {
			return fmt.Sprintf("time %g", s.most)
		}
		return fmt.Sprintf("%s %d", s.o.Costing.name(), int64(s.most)) // operations and bytes are whole
	}
	return fmt.Sprintf("%s %g", s.budget.Name, s.budget.At)
}

// apply is the command that decides a choice that was placed.
func (s *searcher) apply(choice []int) string {
	var lines []string
	if out := s.places[fmt.Sprint(choice)]; out != nil {
		for _, d := range out.decisions {
			if !s.mixed() {
				return "qwb dispatch " + plain.Shell(s.Plan) + " --fp32 " + plain.Shell(strings.Join(d.Select, ","))
			}
			lines = append(lines, "qwb set "+plain.Shell(s.Plan)+" "+plain.Shell(strings.Join(d.Select, ","))+" "+
				strings.Join(d.Properties.Words(), " "))
		}
	}
	return strings.Join(lines, " && ")
}

// placed is what follows from a choice; nil is the plan as it is.
func (s *searcher) placed(ctx context.Context, choice []int) (*placed, error) {
	if !slices.ContainsFunc(choice, func(k int) bool { return k > 0 }) {
		return &placed{Derived: s.start}, nil
	}
	key := fmt.Sprint(choice)
	if out := s.places[key]; out != nil {
		return out, nil
	}
	out, list, err := s.mix.Derive(ctx, s.base, s.goalText(), choice)
	if err != nil {
		return nil, err
	}
	s.places[key] = &placed{out, list}
	return s.places[key], nil
}

// place says what a choice amounts to.
func (s *searcher) place(ctx context.Context, choice []int) (*analysis.Placement, error) {
	out, err := s.placed(ctx, choice)
	if err != nil {
		return nil, err
	}
	integer, total := out.Assignment.Work()
	p := &analysis.Placement{MACs: total - integer, Borders: len(out.Assignment.Borders()),
		Chosen: s.mix.Chosen(out.Derived, choice), Barred: true}
	if p.Cost = float64(p.MACs); s.mixed() {
		cost, err := analysis.CostOf(out.Graph, out.Set, s.Derivation.Target, s.o.Costing.Device)
		if err != nil {
			return nil, err
		}
		p.Cost, p.Formats = s.o.Costing.Of(cost, s.Derivation.Target), map[string]int{}
		for i, k := range p.Chosen {
			p.Formats[s.units[i].Options[k].Name]++
		}
	}
	for _, domain := range out.Set.Domains {
		p.Barred = p.Barred && (domain == tqc.DomainFP32 || domain == tqc.DomainSOI)
	}
	over, err := s.beyond(ctx, choice)
	p.Barred = p.Barred || over
	return p, err
}

// companions names the operators that go to float with a choice though they are not in it.
func (s *searcher) companions(ctx context.Context, choice []int, found *Found) error {
	out, err := s.placed(ctx, choice)
	if err != nil {
		return err
	}
	order, err := out.Graph.Order()
	if err != nil {
		return err
	}
	var chosen []string
	for _, d := range out.decisions {
		chosen = append(chosen, d.Select...)
	}
	for _, id := range order {
		name := out.Graph.Node(id).Name
		if out.Set.Domains[id].Float() && s.start.Set.Domains[id] == tqc.DomainInt && s.start.Set.Fused[id] == graph.NoNode &&
			!slices.Contains(chosen, name) {
			found.Along = append(found.Along, name)
		}
	}
	return nil
}

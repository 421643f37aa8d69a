package search

import (
	"context"

	"qwb/analysis"
	"qwb/analysis/assign"
	"qwb/graph"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/quantizer/decision"
	"qwb/quantizer/sim"
)

// rankSamples is how many of the fitting samples the operators are ranked on: they give an order and a first guess.
const rankSamples = 32

// rank makes a unit of every operator that layerwise analysis measures, on some of the fitting samples. In several formats it measures them
// in each.
func (s *searcher) rank(ctx context.Context) (ranking []analysis.LayerError, err error) {
	list, err := s.layerwise(ctx, "layerwise", s.start)
	if err != nil {
		return nil, err
	}
	var nodes []graph.NodeID
	for _, l := range list {
		id, _ := s.Planned.Graph.LookupNode(l.Node)
		if wanted(s.start, s.Planned.Graph, id) && !s.mixed() {
			continue // somebody decided that it runs on integers
		}
		nodes = append(nodes, id)
		l.WeightRange = nil
		ranking = append(ranking, l)
		s.units = append(s.units, assign.Unit{Name: l.Node, Options: []assign.Option{{Name: "int8", Parts: l.Parts()},
			{Name: "fp32", Cost: float64(l.MACs + 1)}}})
	}
	if s.mix, err = NewMixture(s.Derivation, s.start, nodes, s.asked()); err != nil {
		return ranking, err
	}
	if !s.mixed() {
		for i, l := range ranking {
			if l.MACs == 0 { // its own work is next to nothing: in float it costs converting what it reads and writes
				s.units[i].Options[1].Cost += s.Planned.Target.BorderCost * float64(s.mix.Elements(nodes[i]))
			}
		}
		return ranking, nil
	}
	s.mix.note = s.Note
	s.mix.refuse = s.Exportable
	s.units, err = s.mix.Measured(ctx, s.base, s.o.Costing,
		func(ctx context.Context, format string, out *planning.Derived) (map[graph.NodeID][]float64, error) {
			in := list
			if out != s.start {
				var err error
				if in, err = s.layerwise(ctx, "layerwise, "+format, out); err != nil {
					return nil, err
				}
			}
			losses := map[graph.NodeID][]float64{}
			for _, l := range in {
				id, _ := s.Planned.Graph.LookupNode(l.Node)
				losses[id] = l.Parts()
			}
			return losses, nil
		})
	return ranking, err
}

// layerwise measures every operator of a plan alone, or estimates it.
func (s *searcher) layerwise(ctx context.Context, what string, out *planning.Derived) ([]analysis.LayerError, error) {
	g, _ := s.Planned.TunedGraph(out.Set)
	q, err := s.Planned.SimulatorOf(g, out.Set, nil)
	if err != nil {
		return nil, err
	}
	parts, err := samples.Slices(s.Job, s.o.Data.Slices, s.Planned.Reference)
	if err != nil {
		return nil, err
	}
	n := min(rankSamples, len(s.fit.hashes))
	tick, finish := s.Progress(what, n)
	defer finish()
	head := &samples.Head{Iterator: s.fit.again(), Left: n}
	cfg := analysis.Config{Layerwise: true, Parts: parts, Threads: s.o.Threads, Memory: s.o.Memory, Progress: tick}
	if s.o.Rank != RankGradient {
		r, err := analysis.Analyze(ctx, s.Planned.Reference, q, head, cfg)
		if err != nil {
			return nil, err
		}
		return r.Layerwise, nil
	}
	rows, err := analysis.Sensitivities(ctx, s.Planned.Reference, []*sim.Simulator{q}, head, cfg)
	if err != nil {
		return nil, err
	}
	var list []analysis.LayerError
	for i := range rows[0] {
		list = append(list, rows[0][i].Layer(s.Planned.Reference, len(s.budget.trial(s.fit.start).Parts)))
	}
	return list, nil
}

// wanted reports whether a node, or one that is computed together with it, was decided to run on integers.
func wanted(d *planning.Derived, g *graph.Graph, id graph.NodeID) bool {
	top := id
	if h := d.Set.Fused[id]; h != graph.NoNode {
		top = h
	}
	for _, other := range d.Set.Together(top, g.Nodes()) {
		if d.Table.Nodes[other].Domain == decision.Int {
			return true
		}
	}
	return false
}

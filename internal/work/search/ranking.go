package search

import (
	"context"
	"slices"

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
	measured, err := s.layerwise(ctx, Candidate{Out: s.start})
	if err != nil {
		return nil, err
	}
	list := measured[0]
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
	losses := func(ctx context.Context, asked []Candidate) ([]map[graph.NodeID][]float64, error) {
		more, err := s.layerwise(ctx, asked[1:]...)
		if err != nil {
			return nil, err
		}
		by := make([]map[graph.NodeID][]float64, len(asked))
		for i, rows := range append([][]analysis.LayerError{list}, more...) {
			by[i] = map[graph.NodeID][]float64{}
			for _, l := range rows {
				id, _ := s.Planned.Graph.LookupNode(l.Node)
				by[i][id] = l.Parts()
			}
		}
		return by, nil
	}
	s.units, err = s.mix.Measured(ctx, s.base, s.o.Costing, losses)
	return ranking, err
}

// layerwise measures every operator of plans alone, or estimates it: for all plans at once.
func (s *searcher) layerwise(ctx context.Context, plans ...Candidate) (list [][]analysis.LayerError, err error) {
	parts, err := samples.Slices(s.Job, s.o.Data.Slices, s.Planned.Reference)
	if err != nil || len(plans) == 0 {
		return nil, err
	}
	n := min(rankSamples, len(s.fit.hashes))
	run := func(what string, some []Candidate) error {
		var simulators []*sim.Simulator
		for _, c := range some {
			g, _ := s.Planned.TunedGraph(c.Out.Set)
			q, err := s.Planned.SimulatorOf(g, c.Out.Set, nil)
			if err != nil {
				return err
			}
			simulators = append(simulators, q)
		}
		tick, finish := s.Progress(what, n)
		defer finish()
		head := &samples.Head{Iterator: s.fit.again(), Left: n}
		cfg := analysis.Config{Layerwise: true, Parts: parts, Threads: s.o.Threads, Memory: s.o.Memory, Progress: tick}
		if s.o.Rank != RankGradient {
			r, err := analysis.Analyze(ctx, s.Planned.Reference, simulators[0], head, cfg)
			if err == nil {
				list = append(list, r.Layerwise)
			}
			return err
		}
		all, err := analysis.Sensitivities(ctx, s.Planned.Reference, simulators, head, cfg)
		for _, rows := range all {
			var of []analysis.LayerError
			for i := range rows {
				of = append(of, rows[i].Layer(s.Planned.Reference, len(s.budget.trial(s.fit.start).Parts)))
			}
			list = append(list, of)
		}
		return err
	}
	if s.o.Rank == RankGradient {
		err = run("sensitivity", plans)
		return list, err
	}
	for _, c := range plans {
		what := "layerwise"
		if c.Format != "" {
			what += ", " + c.Format
		}
		if err := run(what, []Candidate{c}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// UnitErrors is a part of a network with its errors in several formats: the one that it has, then those that it may have.
type UnitErrors struct {
	Unit    string        `json:"unit"` // its operator, or the first of several
	Formats []FormatError `json:"formats"`
}

// FormatError is the NSR at the outputs, of the worst part, with a unit alone in a format, and what it costs there.
type FormatError struct {
	Format string  `json:"format"`
	NSR    float64 `json:"nsr"`
	Cost   float64 `json:"cost"`
}

// unitErrors are those of the units as ranked; nil where there is one format.
func (s *searcher) unitErrors() (list []UnitErrors) {
	for i := range s.units {
		if !s.mixed() {
			return nil
		}
		u := UnitErrors{Unit: s.units[i].Name}
		for _, o := range s.units[i].Options {
			u.Formats = append(u.Formats, FormatError{o.Name, slices.Max(append(slices.Clip(o.Parts), 0)), o.Cost})
		}
		list = append(list, u)
	}
	return list
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

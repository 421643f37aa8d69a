package qwb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// SearchSamples is how many samples of the plan's own data a search measures on unless told otherwise.
const SearchSamples = 16

// DispatchOptions are the arguments of dispatch.
type DispatchOptions struct {
	Selectors []string
	Reset     bool
	Budget    *Budget // nil: no search
	Data      DataOptions
	Threads   int
	Memory    int64 // for activations while ranking, for samples while searching
}

// Budget is what a search has to reach.
type Budget struct {
	Name string // nsr, cosine or drop
	At   float64
}

func (b *Budget) met(x float64) bool {
	if b.Name == "cosine" {
		return x >= b.At
	}
	return x <= b.At
}

// DispatchResult is what dispatch --json prints.
type DispatchResult struct {
	Plan        string           `json:"plan"`
	FP32        []string         `json:"fp32"` // nodes sent to float by the user or the search
	Evaluations int              `json:"evaluations"`
	Before      float64          `json:"before"` // the budget's metric
	After       float64          `json:"after"`
	Points      []analysis.Point `json:"points,omitempty"`
	// Units are the operators that a search ranked, and Search what it found; nil where none was asked for.
	Units  []analysis.Unit        `json:"-"`
	Search *analysis.SearchResult `json:"-"`
}

// dispatch applies selectors and search and writes the plan. When the budget cannot be met it returns what was found together with
// a CheckError, and leaves the plan as it was.
func (j *job) dispatch(ctx context.Context, o DispatchOptions) (*DispatchResult, error) {
	p, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r, err := j.recipe(p, o.Threads)
	if err != nil {
		return nil, err
	}
	var forced []dispatch.Forced
	if !o.Reset {
		forced = append(forced, p.byUser())
	}
	for _, text := range o.Selectors {
		selectors, err := dispatch.ParseSelectors(text)
		if err != nil {
			return nil, UsageError{err}
		}
		f, err := dispatch.Select(p.Graph, selectors, dispatch.ByUser)
		if err != nil {
			return nil, err
		}
		forced = append(forced, f...)
	}
	c, err := r.configure(ctx, forced...)
	if err != nil {
		return nil, err
	}
	result := &DispatchResult{Plan: j.Plan, FP32: []string{}}
	if o.Budget != nil {
		s := searcher{job: j, p: p, recipe: r, forced: forced, o: o}
		units, found, err := s.search(ctx, c)
		if found == nil {
			return nil, err
		}
		result.Units, result.Search = units, found
		result.Evaluations, result.Points = len(found.Points), found.Points
		result.Before, result.After = found.Before.Metric, found.After.Metric
		if err != nil {
			if errors.Is(err, analysis.ErrBudget) {
				err = CheckError{err}
			}
			return result, err
		}
		if c, err = r.configure(ctx, append(forced, s.chosen(found.FP32))...); err != nil {
			return nil, err
		}
	}
	result.FP32 = sentToFloat(p.Graph, c.set)
	meta := p.Plan.Meta
	if r.stats != nil {
		meta.Warnings = planWarnings(c, r.stats, meta.Data.Synthetic)
	}
	j.warnNew(p.Plan, meta.Warnings)
	np, err := plan.FromSet(p.Graph, c.set, meta)
	if err != nil {
		return nil, err
	}
	if err := j.rewritePlan(p, np); err != nil {
		return nil, err
	}
	return result, nil
}

// sentToFloat names, in graph order, the nodes that the user or a search sent to float, with those that went along.
func sentToFloat(g *graph.Graph, set *tqc.Set) []string {
	names := []string{}
	order, err := g.Order()
	if err != nil {
		return names
	}
	for _, id := range order {
		why := set.Why[id]
		if set.Domains[id] == tqc.DomainFP32 && (strings.HasPrefix(why, dispatch.ByUser) || strings.HasPrefix(why, dispatch.BySearch)) {
			names = append(names, g.Node(id).Name)
		}
	}
	return names
}

// searcher connects analysis.Search with the graph, its statistics and the data.
type searcher struct {
	*job
	p      *Planned
	recipe *recipe
	forced []dispatch.Forced
	o      DispatchOptions
	nodes  []graph.NodeID // of the units
	set    *data.Set
	shared sim.Constants
}

func (s *searcher) chosen(units []int) dispatch.Forced {
	f := dispatch.Forced{Who: dispatch.BySearch, Why: fmt.Sprintf("%s %g", s.o.Budget.Name, s.o.Budget.At)}
	for _, i := range units {
		f.Nodes = append(f.Nodes, s.nodes[i])
	}
	return f
}

func (s *searcher) search(ctx context.Context, c *configured) ([]analysis.Unit, *analysis.SearchResult, error) {
	var err error
	if s.set, err = s.planData(s.p, s.o.Data, SearchSamples); err != nil {
		return nil, nil, err
	}
	if s.o.Budget.Name == "drop" {
		if err := s.set.RequireLabels(); err != nil {
			return nil, nil, err
		}
	}
	units, err := s.rank(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	measure, err := s.metric(ctx)
	if err != nil {
		return nil, nil, err
	}
	done := 0
	tick, finish := s.progress("search (evaluations)", 0)
	defer finish()
	found, err := analysis.Search(ctx, analysis.SearchConfig{Units: units, Descending: s.o.Budget.Name == "cosine", Met: s.o.Budget.met,
		Evaluate: func(ctx context.Context, fp32 []int) (float64, int64, int, error) {
			c, err := s.recipe.configure(ctx, append(s.forced[:len(s.forced):len(s.forced)], s.chosen(fp32))...)
			if err != nil {
				return 0, 0, 0, err
			}
			done++
			tick(done)
			x, err := measure(c)
			integer, total := c.assignment.Work()
			return x, total - integer, len(c.assignment.Borders()), err
		}})
	return units, found, err
}

// rank makes a unit of every operator that layerwise analysis measures.
func (s *searcher) rank(ctx context.Context, c *configured) ([]analysis.Unit, error) {
	g, _ := s.p.tunedGraph(c.set)
	q, err := s.p.simulator(g, c.set, nil)
	if err != nil {
		return nil, err
	}
	tick, finish := s.progress("layerwise", s.set.Len())
	defer finish()
	r, err := analysis.Analyze(ctx, s.p.Reference, q, s.set.Iterator(), analysis.Config{Layerwise: true, Threads: s.o.Threads, Memory: s.o.Memory, Progress: tick})
	if err != nil {
		return nil, err
	}
	var units []analysis.Unit
	for _, l := range r.Layerwise {
		id, _ := s.p.Graph.LookupNode(l.Node)
		s.nodes = append(s.nodes, id)
		units = append(units, analysis.Unit{Name: l.Node, MACs: l.MACs, Error: l.NSR})
	}
	return units, nil
}

// metric returns what measures a configuration in the terms of the budget. The float graph runs once, now.
func (s *searcher) metric(ctx context.Context) (func(*configured) (float64, error), error) {
	ev, err := analysis.NewEvaluator(ctx, s.p.Reference, s.set.Iterator, s.o.Threads, s.o.Memory)
	if err != nil {
		return nil, err
	}
	return func(c *configured) (float64, error) {
		g, _ := s.p.tunedGraph(c.set)
		q, err := s.p.simulator(g, c.set, &s.shared)
		if err != nil {
			return 0, err
		}
		if s.o.Budget.Name == "drop" {
			a, err := ev.Accuracy(ctx, q)
			if err != nil {
				return 0, err
			}
			return a.Drop, nil
		}
		e, err := ev.Error(ctx, q)
		if s.o.Budget.Name == "cosine" {
			return e.Cosine, err
		}
		return e.NSR, err
	}, nil
}

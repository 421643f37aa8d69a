package qwb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
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

// dispatch decides about domains: selectors, and what a search finds. When the budget cannot be met it returns what was found together
// with a CheckError, and leaves the plan as it was.
func (j *job) dispatch(ctx context.Context, o DispatchOptions) (*DispatchResult, error) {
	var step []decision.Decision
	if len(o.Selectors) > 0 {
		d := decision.Decision{By: decision.ByUser, Select: o.Selectors, Properties: decision.Properties{Domain: decision.FP32}}
		if _, err := d.Select.Selector(); err != nil {
			return nil, UsageError{err}
		}
		step = append(step, d)
	}
	c, err := j.change(ctx, o.Threads)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if unset := c.domains(o.Reset, o.Budget != nil); len(unset) > 0 {
		step = append([]decision.Decision{{By: decision.ByUser, Unset: unset}}, step...)
	}
	result := &DispatchResult{Plan: j.Plan, FP32: []string{}}
	if o.Budget != nil {
		found, err := c.search(ctx, o, step, result)
		if err != nil {
			if result.Search == nil {
				result = nil
			}
			return result, err
		}
		if found != nil {
			step = append(step, *found)
		}
	}
	out, err := c.decide(ctx, step...)
	if err != nil {
		return nil, err
	}
	result.FP32 = sentToFloat(out.Graph, out.Set)
	return result, nil
}

// domains lists the numbers of the decisions about domains that are taken back: all of them, or those of earlier searches, which a new
// one replaces.
func (c *change) domains(reset, searching bool) (numbers []int) {
	list := c.p.Plan.Decisions
	for i, counts := range decision.InForce(list) {
		if d := &list[i]; counts && d.Domain != "" && (reset || searching && d.By == decision.BySearch) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// search looks for the operators to send to float under the plan's decisions and those of this step, and returns the decision about
// them, nil if the budget is met without any. What was measured is put into the result.
func (c *change) search(ctx context.Context, o DispatchOptions, step []decision.Decision, result *DispatchResult) (*decision.Decision, error) {
	base := *c.p.Plan
	base.Decide(step...)
	if err := decision.CheckList(base.Decisions); err != nil {
		return nil, err
	}
	start, err := c.derive(ctx, &base)
	if err != nil {
		return nil, err
	}
	s := searcher{change: c, base: base.Decisions, o: o}
	units, found, err := s.search(ctx, start)
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
		return nil, err
	}
	if len(found.FP32) == 0 {
		return nil, nil
	}
	d := s.chosen(found.FP32)
	evidence := struct {
		Samples     int     `json:"samples"`
		Evaluations int     `json:"evaluations"`
		Before      float64 `json:"before"`
		After       float64 `json:"after"`
	}{s.set.Len(), result.Evaluations, result.Before, result.After}
	if d.Evidence, err = json.Marshal(evidence); err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	inputs, err := c.p.Plan.Inputs()
	if err != nil {
		return nil, err
	}
	next := append(c.p.Plan.Decisions[:len(c.p.Plan.Decisions):len(c.p.Plan.Decisions)], step...)
	d.After, err = decision.After(append(next, d), len(next), inputs)
	return &d, err
}

// sentToFloat names, in graph order, the nodes that a user, a recipe or a search sent to float, with those that went along.
func sentToFloat(g *graph.Graph, set *tqc.Set) []string {
	names := []string{}
	order, err := g.Order()
	if err != nil {
		return names
	}
	for _, id := range order {
		why := set.Why[id]
		who, _, _ := strings.Cut(why, ":")
		if set.Domains[id].Float() && (who == dispatch.ByUser || who == dispatch.BySearch || who == string(decision.ByRecipe)) {
			names = append(names, g.Node(id).Name)
		}
	}
	return names
}

// searcher connects analysis.Search with the graph, its statistics and the data.
type searcher struct {
	*change
	base   []decision.Decision // what holds whatever is tried
	o      DispatchOptions
	nodes  []graph.NodeID // of the units
	set    *data.Set
	shared sim.Constants
}

// chosen is the decision that sends units to float.
func (s *searcher) chosen(units []int) decision.Decision {
	d := decision.Decision{By: decision.BySearch, Goal: fmt.Sprintf("%s %g", s.o.Budget.Name, s.o.Budget.At), Properties: decision.Properties{Domain: decision.FP32}}
	for _, i := range units {
		d.Select = append(d.Select, s.p.Graph.Node(s.nodes[i]).Name)
	}
	return d
}

// derived is what follows when units are sent to float.
func (s *searcher) derived(ctx context.Context, units []int) (*derived, error) {
	list := s.base
	if len(units) > 0 {
		list = append(list[:len(list):len(list)], s.chosen(units))
	}
	return s.d.Derive(ctx, list)
}

func (s *searcher) search(ctx context.Context, c *derived) ([]analysis.Unit, *analysis.SearchResult, error) {
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
			c, err := s.derived(ctx, fp32)
			if err != nil {
				return 0, 0, 0, err
			}
			done++
			tick(done)
			x, err := measure(c)
			integer, total := c.Assignment.Work()
			return x, total - integer, len(c.Assignment.Borders()), err
		}})
	return units, found, err
}

// rank makes a unit of every operator that layerwise analysis measures.
func (s *searcher) rank(ctx context.Context, c *derived) ([]analysis.Unit, error) {
	g, _ := s.p.tunedGraph(c.Set)
	q, err := s.p.simulator(g, c.Set, nil)
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
		if c.wanted(s.p.Graph, id) {
			continue // somebody decided that it runs on integers
		}
		s.nodes = append(s.nodes, id)
		units = append(units, analysis.Unit{Name: l.Node, MACs: l.MACs, Error: l.NSR})
	}
	return units, nil
}

// wanted reports whether a node, or one that is computed together with it, was decided to run on integers.
func (d *derived) wanted(g *graph.Graph, id graph.NodeID) bool {
	head := id
	if h := d.Set.Fused[id]; h != graph.NoNode {
		head = h
	}
	for _, other := range d.Set.Together(head, g.Nodes()) {
		if d.Table.Nodes[other].Domain == decision.Int {
			return true
		}
	}
	return false
}

// metric returns what measures a configuration in the terms of the budget. The float graph runs once, now.
func (s *searcher) metric(ctx context.Context) (func(*derived) (float64, error), error) {
	ev, err := analysis.NewEvaluator(ctx, s.p.Reference, s.set.Iterator, s.o.Threads, s.o.Memory)
	if err != nil {
		return nil, err
	}
	return func(c *derived) (float64, error) {
		g, _ := s.p.tunedGraph(c.Set)
		q, err := s.p.simulator(g, c.Set, &s.shared)
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

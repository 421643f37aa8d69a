package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// searchSamples is how many samples of the plan's own data a search measures on unless told otherwise.
const searchSamples = 16

// dispatchOptions are the arguments of dispatch.
type dispatchOptions struct {
	plan      string
	selectors []string
	reset     bool
	budget    *budget // nil: no search
	data      dataOptions
	threads   int
	memory    int64 // for activations while ranking, for samples while searching
}

// budget is what a search has to reach.
type budget struct {
	name string // nsr, cosine or drop
	at   float64
}

func (b *budget) met(x float64) bool {
	if b.name == "cosine" {
		return x >= b.at
	}
	return x <= b.at
}

// dispatchResult is what dispatch --json prints.
type dispatchResult struct {
	Plan        string           `json:"plan"`
	FP32        []string         `json:"fp32"` // nodes sent to float by the user or the search
	Evaluations int              `json:"evaluations"`
	Before      float64          `json:"before"` // the budget's metric
	After       float64          `json:"after"`
	Points      []analysis.Point `json:"points,omitempty"`
}

func newDispatch(e *env) *cobra.Command {
	var f flags
	var o dispatchOptions
	var auto bool
	var maxNSR, minCosine, maxDrop float64
	var labels string
	var offset int
	c := &cobra.Command{
		Use:   "dispatch [PLAN] --fp32 SELECTORS | --auto with a budget",
		Short: "Send operators back to float, by hand or until a budget on the error is met",
		Long: fmt.Sprintf(`Dispatch updates the plan (the old one is kept as .bak).

  --fp32 SELECTORS   names, /regular expressions/ or type:Softmax, separated by commas; added to what was sent to float before
                     (--reset forgets that)
  --auto             look for the smallest set of operators (least work in float, then fewest borders) that meets one budget:
                     --max-nsr X, --min-cosine X at the graph outputs, or --max-drop POINTS of top-1 on --data with --labels

What belongs together stays together: an activation goes with the operator it is fused to. The scales come from the statistics beside
the plan; those of an imported plan from the quantized file, whose weights, dequantized, are what float operators have then. A search
measures on the plan's own data (at most %d samples unless --samples says otherwise) or on --data. Exit code 3: not even the whole
graph in float meets the budget.`, searchSamples),
		Args: atMost(1, "one plan"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := f.check(); err != nil {
				return err
			}
			if o.plan, err = findPlan(args); err != nil {
				return err
			}
			o.data, o.threads = f.dataOptions(), f.workers()
			o.memory, _ = f.memory()
			o.data.labels, o.data.labelOffset = labels, offset
			for name, at := range map[string]float64{"nsr": maxNSR, "cosine": minCosine, "drop": maxDrop} {
				flag := map[string]string{"nsr": "max-nsr", "cosine": "min-cosine", "drop": "max-drop"}[name]
				if c.Flags().Changed(flag) {
					if o.budget != nil {
						return usagef("one budget at a time: --max-nsr, --min-cosine or --max-drop")
					}
					if math.IsNaN(at) {
						return usagef("--%s NaN: not a number", flag)
					}
					o.budget = &budget{name, at}
				}
			}
			switch {
			case auto && o.budget == nil:
				return usagef("--auto needs a budget: --max-nsr, --min-cosine or --max-drop")
			case !auto && o.budget != nil:
				return usagef("a budget needs --auto")
			case !auto && len(o.selectors) == 0 && !o.reset:
				return usagef("dispatch needs --fp32 SELECTORS, --auto or --reset")
			case o.budget != nil && o.budget.name == "drop" && len(o.data.paths) == 0:
				return usagef("--max-drop needs --data and labels")
			}
			r, units, res, err := e.dispatch(c.Context(), o)
			if r == nil {
				return err
			}
			if f.json {
				if jerr := e.printJSON(r); jerr != nil {
					return jerr
				}
				return err
			}
			if res != nil {
				if terr := reports.SearchText(e.stdout, units, res); terr != nil {
					return terr
				}
			}
			if err == nil {
				_, err = fmt.Fprintf(e.stdout, "%s: %d operators in float by user or search\n", r.Plan, len(r.FP32))
			}
			return err
		},
	}
	f.addData(c)
	f.addRun(c)
	f.addMemory(c)
	f.addJSON(c)
	c.Flags().StringArrayVar(&o.selectors, "fp32", nil, "operators to send to float: name, /regex/, type:Op; separated by commas")
	c.Flags().BoolVar(&o.reset, "reset", false, "forget what was sent to float before")
	c.Flags().BoolVar(&auto, "auto", false, "search for the smallest set that meets a budget")
	c.Flags().Float64Var(&maxNSR, "max-nsr", 0, "budget: noise-to-signal ratio at the graph outputs")
	c.Flags().Float64Var(&minCosine, "min-cosine", 0, "budget: cosine at the graph outputs")
	c.Flags().Float64Var(&maxDrop, "max-drop", 0, "budget: percentage points of top-1 on --data")
	c.Flags().StringVar(&labels, "labels", "", "labels for --max-drop")
	c.Flags().IntVar(&offset, "label-offset", 0, "class = label + offset")
	return c
}

// dispatch applies selectors and search and writes the plan. When the budget cannot be met it returns what was found together with
// a checkError, and leaves the plan as it was.
func (e *env) dispatch(ctx context.Context, o dispatchOptions) (*dispatchResult, []analysis.Unit, *analysis.SearchResult, error) {
	p, err := e.openPlan(o.plan)
	if err != nil {
		return nil, nil, nil, err
	}
	defer p.Close()
	r, err := e.recipe(p, o.threads)
	if err != nil {
		return nil, nil, nil, err
	}
	var forced []dispatch.Forced
	if !o.reset {
		forced = append(forced, p.byUser())
	}
	for _, text := range o.selectors {
		selectors, err := dispatch.ParseSelectors(text)
		if err != nil {
			return nil, nil, nil, usageError{err}
		}
		f, err := dispatch.Select(p.Graph, selectors, dispatch.ByUser)
		if err != nil {
			return nil, nil, nil, err
		}
		forced = append(forced, f...)
	}
	c, err := r.configure(ctx, forced...)
	if err != nil {
		return nil, nil, nil, err
	}
	result := &dispatchResult{Plan: o.plan, FP32: []string{}}
	var units []analysis.Unit
	var found *analysis.SearchResult
	if o.budget != nil {
		s := searcher{env: e, p: p, recipe: r, forced: forced, o: o}
		units, found, err = s.search(ctx, c)
		if found == nil {
			return nil, nil, nil, err
		}
		result.Evaluations, result.Points = len(found.Points), found.Points
		result.Before, result.After = found.Before.Metric, found.After.Metric
		if err != nil {
			if errors.Is(err, analysis.ErrBudget) {
				err = checkError{err}
			}
			return result, units, found, err
		}
		if c, err = r.configure(ctx, append(forced, s.chosen(found.FP32))...); err != nil {
			return nil, nil, nil, err
		}
	}
	result.FP32 = sentToFloat(p.Graph, c.set)
	meta := p.plan.Meta
	if r.stats != nil {
		meta.Warnings = planWarnings(c, r.stats, meta.Data.Synthetic)
	}
	for _, w := range meta.Warnings {
		e.warnAbout(w)
	}
	np, err := plan.FromSet(p.Graph, c.set, meta)
	if err != nil {
		return nil, nil, nil, err
	}
	return result, units, found, np.Write(o.plan)
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
	*env
	p      *planned
	recipe *recipe
	forced []dispatch.Forced
	o      dispatchOptions
	nodes  []graph.NodeID // of the units
	set    *data.Set
	shared sim.Constants
}

func (s *searcher) chosen(units []int) dispatch.Forced {
	f := dispatch.Forced{Who: dispatch.BySearch, Why: fmt.Sprintf("%s %g", s.o.budget.name, s.o.budget.at)}
	for _, i := range units {
		f.Nodes = append(f.Nodes, s.nodes[i])
	}
	return f
}

func (s *searcher) search(ctx context.Context, c *configured) ([]analysis.Unit, *analysis.SearchResult, error) {
	var err error
	if s.set, err = s.planData(s.p, s.o.data, searchSamples); err != nil {
		return nil, nil, err
	}
	if s.o.budget.name == "drop" {
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
	tick, finish := s.progress("search", 0)
	defer finish()
	found, err := analysis.Search(ctx, analysis.SearchConfig{Units: units, Descending: s.o.budget.name == "cosine", Met: s.o.budget.met,
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
	q, err := simulator(s.p.Graph, c.set, s.p.target)
	if err != nil {
		return nil, err
	}
	tick, finish := s.progress("layerwise", s.set.Len())
	defer finish()
	r, err := analysis.Analyze(ctx, s.p.Graph, q, s.set.Iterator(), analysis.Config{Layerwise: true, Threads: s.o.threads, Memory: s.o.memory, Progress: tick})
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
	ev, err := analysis.NewEvaluator(ctx, s.p.Graph, s.set.Iterator, s.o.threads, s.o.memory)
	if err != nil {
		return nil, err
	}
	return func(c *configured) (float64, error) {
		q, err := simulatorWith(s.p.Graph, c.set, s.p.target, &s.shared)
		if err != nil {
			return 0, err
		}
		if s.o.budget.name == "drop" {
			a, err := ev.Accuracy(ctx, q)
			if err != nil {
				return 0, err
			}
			return a.Drop, nil
		}
		e, err := ev.Error(ctx, q)
		if s.o.budget.name == "cosine" {
			return e.Cosine, err
		}
		return e.NSR, err
	}, nil
}

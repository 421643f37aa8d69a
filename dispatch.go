package qwb

import (
	"context"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/tqc"
)

// SearchSamples is how many samples of the plan's own data a search measures on unless told otherwise.
const SearchSamples = 64

// DispatchOptions are the arguments of dispatch.
type DispatchOptions struct {
	Selectors []string
	Reset     bool
	Budget    *Budget // nil: no search
	Force     bool    // decide what a search found though no held-out samples confirm it
	// Formats are those that a search may give to operators beside their own (see docs/formats.md); none: fp32. Costing says which cost it makes
	// small, by the device file where it is named; with a MaxCost it makes the error small instead, without a Budget.
	Formats    []string
	Costing    Costing
	DeviceFile string
	MaxCost    *CostLimit
	Data       DataOptions
	Threads    int
	Memory     int64 // for activations while ranking, for samples while searching
}

// DispatchResult is what dispatch --json prints.
type DispatchResult struct {
	Plan        string           `json:"plan"`
	FP32        []string         `json:"fp32"` // nodes sent to float by the user or the search
	Evaluations int              `json:"evaluations"`
	Before      float64          `json:"before"` // the budget's metric
	After       float64          `json:"after"`
	Points      []analysis.Point `json:"points,omitempty"`
	Decisions   []string         `json:"decisions,omitempty"` // of a search in several formats, as qwb plan log shows them
	Cost        *CostChange      `json:"cost,omitempty"`      // of a search
	*Found                       // nil where no search was asked for
}

// dispatch decides about domains: selectors, and what a search finds. Where held-out samples do not confirm that the budget is met it returns
// what was found together with a CheckError, and leaves the plan as it was.
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
	searching := o.Budget != nil || o.MaxCost != nil
	if unset := c.domains(o.Reset, searching); len(unset) > 0 {
		step = append([]decision.Decision{{By: decision.ByUser, Unset: unset}}, step...)
		if searching {
			j.note("what an earlier search chose is dropped: the plan is measured and searched without it")
		}
	}
	result := &DispatchResult{Plan: j.Plan, FP32: []string{}}
	if searching {
		found, err := c.search(ctx, o, step, result)
		if err != nil {
			if result.Found == nil {
				result = nil
			}
			return result, err
		}
		step = append(step, found...)
	}
	if len(step) == 0 { // what was asked for is so already
		result.FP32 = sentToFloat(c.p.Graph, c.p.Set)
		return result, nil
	}
	out, err := c.decide(ctx, step...)
	if err != nil {
		return nil, err
	}
	result.FP32 = sentToFloat(out.Graph, out.Set)
	if result.Found != nil {
		result.Apply = ""
	}
	return result, nil
}

// domains lists the numbers of the decisions that are taken back: all about domains and of earlier searches, or those of earlier searches,
// which a new one replaces.
func (c *change) domains(reset, searching bool) (numbers []int) {
	list := c.p.Plan.Decisions
	for i, counts := range decision.InForce(list) {
		if d := &list[i]; counts && (d.Domain != "" && reset || d.By == decision.BySearch && (reset || searching)) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
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

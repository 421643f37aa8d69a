// Package search finds the operators that have to be computed in float, or in which format each is to be, so that a budget is met.
package search

import (
	"context"

	"qwb/analysis"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
)

// SearchSamples is how many samples of the plan's own data a search measures on unless told otherwise.
const SearchSamples = 64

// How operators are ranked: each quantized alone, or estimated from gradients (analysis.Sensitivities).
const (
	RankLayerwise = "layerwise"
	RankGradient  = "gradient"
)

// Options are the arguments of dispatch.
type Options struct {
	Selectors []string
	Reset     bool
	Budget    *Budget // nil: no search
	Force     bool    // decide what a search found though no held-out samples confirm it
	// Formats are those that a search may give to operators beside their own (see docs/formats.md); none: fp32. Costing says which cost it
	// makes small, by the device file where it is named; with a MaxCost it makes the error small instead, without a Budget.
	Formats    []string
	Costing    Costing
	DeviceFile string
	MaxCost    *CostLimit
	// MaxWork is by how many percent what a search finds for a Budget may have more work than the plan as it is, in multiply-accumulates
	// weighted by their format (int8 1, fp32 4); nil: by any.
	MaxWork *float64
	// Rank says what operators are ranked by before the search: RankLayerwise or RankGradient.
	Rank    string
	Data    open.DataOptions
	Threads int
	Memory  int64 // for activations while ranking, for samples while searching
}

// Result is what dispatch --json prints.
type Result struct {
	Plan        string               `json:"plan"`
	FP32        []string             `json:"fp32"` // nodes sent to float by the user or the search
	Evaluations int                  `json:"evaluations"`
	Before      float64              `json:"before"` // the budget's metric
	After       float64              `json:"after"`
	Points      []analysis.Point     `json:"points,omitempty"`
	Decisions   []string             `json:"decisions,omitempty"` // of a search in several formats, as qwb plan log shows them
	Cost        *analysis.CostChange `json:"cost,omitempty"`      // of a search
	*Found                           // nil where no search was asked for
}

// Run decides about domains: selectors, and what a search finds. Where held-out samples do not confirm that the budget is met it returns
// what was found together with a fault.CheckError, and leaves the plan as it was.
func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	var step []decision.Decision
	if len(o.Selectors) > 0 {
		d := decision.Decision{By: decision.ByUser, Select: o.Selectors, Properties: decision.Properties{Domain: decision.FP32}}
		if _, err := d.Select.Selector(); err != nil {
			return nil, fault.UsageError{Err: err}
		}
		step = append(step, d)
	}
	c, err := planning.NewChange(ctx, j, o.Threads)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	searching := o.Budget != nil || o.MaxCost != nil
	if unset := domains(c, o.Reset, searching); len(unset) > 0 {
		step = append([]decision.Decision{{By: decision.ByUser, Unset: unset}}, step...)
		if searching {
			j.Note("what an earlier search chose is dropped: the plan is measured and searched without it")
		}
	}
	result := &Result{Plan: j.Plan, FP32: []string{}}
	if searching {
		found, err := search(ctx, c, o, step, result)
		if err != nil {
			if result.Found == nil {
				result = nil
			}
			return result, err
		}
		step = append(step, found...)
	}
	if len(step) == 0 { // what was asked for is so already
		result.FP32 = planning.SentToFloat(c.Planned.Graph, c.Planned.Set)
		return result, nil
	}
	out, err := c.Decide(ctx, step...)
	if err != nil {
		return nil, err
	}
	result.FP32 = planning.SentToFloat(out.Graph, out.Set)
	if result.Found != nil {
		result.Apply = ""
	}
	return result, nil
}

// domains lists the numbers of the decisions that are taken back: all about domains and of earlier searches, or those of earlier searches,
// which a new one replaces.
func domains(c *planning.Change, reset, searching bool) (numbers []int) {
	list := c.Planned.Plan.Decisions
	for i, counts := range decision.InForce(list) {
		if d := &list[i]; counts && (d.Domain != "" && reset || d.By == decision.BySearch && (reset || searching)) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"qwb/analysis"
	"qwb/analysis/assign"
	"qwb/internal/work/fault"
	"qwb/internal/work/store"
	"qwb/quantizer/target"
)

// Costing says what a search counts as the cost of a plan.
type Costing struct {
	What   string           // macs, bytes or time; empty: macs
	Device *analysis.Device // for time
}

// CostLimit is what a plan may cost at most.
type CostLimit struct {
	At    float64 // multiply-accumulates, bytes or seconds
	Share bool    // At is a share of what the plan costs as it is
}

// Costings are the costs that a search can count, with what they are.
var Costings = []struct{ Name, Doc string }{
	{"macs", "multiply-accumulates weighted by their format (int8 is 1, int16 and fp16 2, fp32 4, int4 a half), " +
		"and for each element that is converted between float and integers the target's border cost"},
	{"bytes", "bytes of all constants, scales included"},
	{"time", "time predicted from a device file"},
}

func (c Costing) check() error {
	var names []string
	for _, x := range Costings {
		names = append(names, x.Name)
	}
	switch {
	case c.What != "" && !slices.Contains(names, c.What):
		return fault.Usagef("unknown cost %q: %s", c.What, strings.Join(names, ", "))
	case c.What == "time" && c.Device == nil:
		return fault.Usagef("time is predicted from a device file: --device FILE")
	}
	return nil
}

// Of is the cost of a plan.
func (c Costing) Of(cost analysis.Cost, t *target.Target) float64 {
	switch c.What {
	case "bytes":
		return float64(cost.TotalBytes())
	case "time":
		return *cost.Seconds
	}
	return cost.Work() + t.BorderCost*float64(cost.Converted)
}

// node is what an operator adds.
func (c Costing) node(n analysis.NodeCost) float64 {
	switch c.What {
	case "bytes":
		return float64(n.Bytes)
	case "time":
		return n.Seconds
	}
	return n.Work()
}

// Conversions is what converting so many elements between float and integers adds.
func (c Costing) Conversions(t *target.Target, elements int64) float64 {
	switch c.What {
	case "bytes":
		return 0
	case "time":
		return c.Device.Conversion(elements, 8, 32)
	}
	return t.BorderCost * float64(elements)
}

// name is the name of what is counted.
func (c Costing) name() string { return cmp.Or(c.What, Costings[0].Name) }

// said is a cost as messages have it.
func (c Costing) said(cost float64) string {
	switch c.What {
	case "bytes":
		return fmt.Sprintf("%.4g KB", cost/1e3)
	case "time":
		return fmt.Sprintf("%.4g ms", cost*1e3)
	}
	return fmt.Sprintf("%.4g M int8 MACs", cost/1e6)
}

// costs compares what was found with the plan as it is.
func (s *searcher) costs(out *placed) (*analysis.CostChange, error) {
	c := &analysis.CostChange{What: s.o.Costing.name()}
	var err error
	if c.Before, err = analysis.CostOf(s.start.Graph, s.start.Set, s.Derivation.Target, s.o.Costing.Device); err == nil {
		c.After, err = analysis.CostOf(out.Graph, out.Set, s.Derivation.Target, s.o.Costing.Device)
	}
	return c, err
}

// limited says what the cost may be.
func (s *searcher) limited() string { return "at most " + s.o.Costing.said(s.most) }

// open reads the device file.
func (c *Costing) open(s store.Store, file string) error {
	if file != "" {
		var err error
		if c.Device, err = OpenDevice(s, file); err != nil {
			return err
		}
	}
	return c.check()
}

// OpenDevice reads a device file.
func OpenDevice(s store.Store, file string) (*analysis.Device, error) {
	text, err := store.ReadFile(s, file, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	d, err := analysis.ParseDevice(text)
	if err != nil {
		return nil, &fault.FileError{File: file, Err: err}
	}
	return d, nil
}

// cheapEnough looks for the choice that loses least among those that cost no more than MaxCost, and returns it. The cost is a fact; the
// error is measured on held-out samples. why says that they are too few.
func (s *searcher) cheapEnough(ctx context.Context, found *Found, result *Result, why string, needed int) ([]int, error) {
	var err error
	if found.Ranking, err = s.rank(ctx); err != nil {
		return nil, err
	}
	found.Search, err = analysis.SearchLoss(ctx, analysis.SearchConfig{Units: s.units, Place: s.place, Start: s.budget.trial(s.fit.start),
		Goal: s.goal, Metric: s.budget.figure,
		Evaluate: func(ctx context.Context, choice []int) (*analysis.Trial, error) {
			t, _, err := s.trial(ctx, s.fit, choice)
			return t, err
		}}, s.most)
	if err != nil {
		found.Stopped = ctx.Err() != nil
		if errors.Is(err, assign.ErrBound) {
			found.Refused = fmt.Sprintf("no choice of formats costs %s: %v", s.limited(), err)
			err = fault.Checkf("dispatch: %s; the plan is unchanged", found.Refused)
		}
		return nil, err
	}
	best := &found.Search.Points[found.Search.Candidates[0]]
	found.Fit, found.Claimed, found.Refused, found.Needed = s.shown(best.Trial, 0, nil), why == "", why, needed
	result.Before, result.After = found.Fit.Value, found.Fit.Value
	if len(s.held.hashes) > 0 {
		t, _, err := s.trial(ctx, s.held, best.Choice)
		if err != nil {
			return nil, err
		}
		found.HeldOut = s.shown(t, analysis.Attempt(0), s.held.hashes)
		result.Before, result.After = s.shown(s.budget.trial(s.held.start), 0, nil).Value, found.HeldOut.Value
	}
	return best.Choice, s.companions(ctx, best.Choice, found)
}

// CostWords writes a cost in one line, as plan show does.
func CostWords(c analysis.Cost) string {
	var macs []string
	for _, name := range slices.Sorted(maps.Keys(c.MACs)) {
		macs = append(macs, fmt.Sprintf("%s %.3g M", name, float64(c.MACs[name])/1e6))
	}
	text := fmt.Sprintf("MACs %s; %.4g KB of constants; %d tensors converted", strings.Join(macs, ", "),
		float64(c.TotalBytes())/1e3, c.Borders)
	if c.Seconds != nil {
		text += fmt.Sprintf("; %.4g ms", *c.Seconds*1e3)
	}
	return text
}

// ParseCostLimit reads 80%, 1.5M, 200000 or, as a time, 2ms, in either case.
func ParseCostLimit(text string, time bool) (*CostLimit, error) {
	type unit struct {
		suffix string
		factor float64
	}
	units := []unit{{"%", 0.01}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"", 1}}
	if text = strings.ToLower(text); time {
		units = []unit{{"%", 0.01}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}
	}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(number, 64)
		if err != nil || !(x > 0) || x > 1e18 {
			break
		}
		return &CostLimit{At: x * u.factor, Share: u.suffix == "%"}, nil
	}
	if time {
		return nil, fmt.Errorf("not a time: for example 2ms, 500us, or 80%% of the plan as it is")
	}
	return nil, fmt.Errorf("not an amount: for example 1.5M, 200000, or 80%% of the plan as it is")
}

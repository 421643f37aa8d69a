package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// CalibrationDecision is the decision that a calibration begins with.
func CalibrationDecision(o tqc.Observer, perTensor, reduceRange bool) decision.Decision {
	d := decision.Decision{By: decision.ByCalibrate, Properties: decision.Properties{Observer: o, PerTensor: &perTensor}}
	if reduceRange {
		d.ReduceRange = &reduceRange
	}
	return d
}

// DispatcherDecision is the decision about the dispatcher.
func DispatcherDecision(t *target.Target, strategy string, cost *float64) decision.Decision {
	if strategy == "" {
		strategy = dispatch.Strategies[0].Name
	}
	if cost == nil {
		own := t.BorderCost
		cost = &own
	}
	return decision.Decision{By: decision.ByTarget, Properties: decision.Properties{Dispatcher: strategy, BorderCost: cost}}
}

// DecideResult is what set, unset, undo, redo and rederive print with --json.
type DecideResult struct {
	Plan string `json:"plan"`
	// Decisions are those that were made, undone or done again.
	Decisions []decision.Decision `json:"decisions"`
	// Changes says in words what is otherwise now.
	Changes string `json:"changes,omitempty"`
	// Unchanged says that the plan was not written: it holds the decision already.
	Unchanged bool `json:"unchanged,omitempty"`
	// Governed says of slots that were selected whose scale the decision went to.
	Governed []Governed `json:"governed,omitempty"`
	FP32     []string   `json:"fp32"` // as dispatch has it
	// Runs are the outcomes of earlier commands on the plan that undo or redo led back to.
	Runs     []journal.Outcome `json:"runs,omitempty"`
	Warnings []tqc.Warning     `json:"warnings"`
}

// Governed is a slot that takes its scale from another.
type Governed struct {
	Decision int    `json:"decision"` // its number
	Slot     string `json:"slot"`
	By       string `json:"by"`
}

// result describes what became of a change.
func (c *Change) result(out *Derived, list []decision.Decision) *DecideResult {
	r := &DecideResult{Plan: c.Plan, Decisions: list, FP32: SentToFloat(out.Graph, out.Set), Warnings: c.Warnings}
	if r.Decisions == nil {
		r.Decisions = []decision.Decision{}
	}
	if r.Warnings == nil {
		r.Warnings = []tqc.Warning{}
	}
	for _, m := range out.Effects.Moved {
		r.Governed = append(r.Governed, Governed{m.Number, SlotName(out.Graph, out.Set, m.From), SlotName(out.Graph, out.Set, m.To)})
	}
	return r
}

// Set decides properties of what is selected.
func Set(ctx context.Context, j *open.Job, selector string, words []string, threads int) (*DecideResult, error) {
	p, err := decision.ParseProperties(words)
	d := decision.Decision{By: decision.ByUser, Select: decision.Select{selector}, Properties: p}
	switch {
	case len(words) == 0:
		return nil, fault.Usagef("set %s: no property given; add KEY=VALUE", selector)
	case err != nil:
		return nil, fault.UsageError{Err: err}
	}
	if err := d.Check(); err != nil {
		return nil, fault.UsageError{Err: err}
	}
	if p.Dispatcher != "" {
		if _, err := dispatch.FindStrategy(p.Dispatcher); err != nil {
			return nil, fault.UsageError{Err: err}
		}
	}
	if p.Freeze != nil && !*p.Freeze {
		return nil, fault.Usagef("freeze=false: take back the decision freeze=true with qwb unset")
	}
	c, err := NewChange(ctx, j, threads)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	step := []decision.Decision{d}
	if p.Freeze != nil && len(p.Scale) == 0 {
		if step, err = c.frozen(d); err != nil {
			return nil, err
		}
	}
	if p.Activations != (tqc.Scheme{}) || p.Weights != (tqc.Scheme{}) || p.Align != "" {
		c.accept = c.Exportable
	}
	first := len(c.Planned.Plan.Decisions)
	if n := stated(c.Planned.Plan.Decisions, step); n > 0 {
		r := c.result(c.Was, nil)
		r.Governed, r.Unchanged = nil, true
		r.Changes = fmt.Sprintf("decision #%d says so already; the plan is unchanged", n)
		return r, nil
	}
	out, err := c.Decide(ctx, step...)
	if err != nil {
		return nil, err
	}
	r := c.result(out, step)
	r.Governed = slices.DeleteFunc(r.Governed, func(g Governed) bool { return g.Decision <= first })
	r.Changes = changes(c.Was, out, d)
	return r, nil
}

// stated is the number of the last decision that says what step says, where all of step is in force and no later decision is about the same
// properties; else 0.
func stated(list, step []decision.Decision) (number int) {
	in := decision.InForce(list)
	for k := range step {
		found := 0
		for i := len(list); i > 0 && found == 0; i-- {
			d := &list[i-1]
			switch {
			case !in[i-1] || d.Default():
			case d.By == decision.ByUser && d.Select.String() == step[k].Select.String() && slices.Equal(d.Words(), step[k].Words()):
				found = i
			case d.By != decision.ByCalibrate && d.About(&step[k].Properties):
				return 0
			}
		}
		if found == 0 {
			return 0
		}
		number = max(number, found)
	}
	return number
}

// Preview opens the plan as set would make it. Nothing is written, and what it returns has to be closed.
func Preview(ctx context.Context, j *open.Job, selector string, words []string, threads int) (*Planned, []tqc.Warning, error) {
	q := *j.Project
	q.Store, q.Events = &store.Scratch{Base: j.Files()}, nil
	of := &open.Job{Project: &q, Ctx: ctx}
	if _, err := Set(ctx, of, selector, words, threads); err != nil {
		return nil, of.Warnings, err
	}
	r, err := OpenPlan(of, of.Plan)
	return r, of.Warnings, err
}

// frozen is a decision to freeze with the scales that are there: one for each slot that governs what is selected.
func (c *Change) frozen(d decision.Decision) ([]decision.Decision, error) {
	sel, err := d.Select.Selector()
	if err != nil {
		return nil, err
	}
	m, err := sel.Match(c.Planned.Graph, c.Planned.Set)
	if err != nil {
		return nil, err
	}
	if len(m.Nodes) > 0 {
		n := c.Planned.Graph.Node(m.Nodes[0]).Name
		return nil, fmt.Errorf("freeze is of one tensor: select %s:in0, %s:weight or %s:out0, not the operator %q", n, n, n, n)
	}
	var step []decision.Decision
	seen := map[tqc.SlotID]bool{}
	for _, s := range m.Slots {
		root := c.Planned.Set.Root(s)
		if seen[root] {
			continue
		}
		seen[root] = true
		p := c.Planned.Set.Params(root)
		if !p.Ready() {
			return nil, fmt.Errorf("%s has no scale to freeze", SlotName(c.Planned.Graph, c.Planned.Set, s))
		}
		one := d
		one.Select = decision.Select{SlotSelector(c.Planned.Graph, c.Planned.Set, root)}
		one.Scale, one.ZeroPoint = p.Scale, p.ZeroPoint
		step = append(step, one)
	}
	return step, nil
}

// Unset takes decisions back: one by its number (#3), or all in force with a selector.
func Unset(ctx context.Context, j *open.Job, what string, threads int) (*DecideResult, error) {
	number := 0
	if digits, ok := strings.CutPrefix(what, "#"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 {
			return nil, fault.Usagef("%s is not the number of a decision: #3", what)
		}
		number = n
	}
	c, err := NewChange(ctx, j, threads)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	numbers, err := unsettable(c.Planned.Plan.Decisions, what, number)
	if err != nil {
		return nil, &fault.FileError{File: c.Planned.File, Err: err}
	}
	step := []decision.Decision{{By: decision.ByUser, Unset: numbers}}
	out, err := c.Decide(ctx, step...)
	if err != nil {
		return nil, err
	}
	return c.result(out, step), nil
}

// unsettable lists the numbers of the decisions in force that a selector, or a number, means.
func unsettable(list []decision.Decision, what string, number int) (numbers []int, err error) {
	in := decision.InForce(list)
	if number > 0 {
		switch {
		case number > len(list):
			return nil, fmt.Errorf("there are %d decisions, not %d", len(list), number)
		case !in[number-1]:
			return nil, fmt.Errorf("decision #%d (%s) is not in force", number, list[number-1].String())
		case list[number-1].Default():
			return nil, fmt.Errorf("decision #%d (%s) is a default and cannot be taken back: change it with qwb calibrate", number,
				list[number-1].String())
		}
		return []int{number}, nil
	}
	var others []string
	for i := range list {
		d := &list[i]
		if !in[i] || len(d.Select) == 0 {
			continue
		}
		if d.Select.String() == what || slices.Equal(d.Select, decision.Select{what}) {
			numbers = append(numbers, i+1)
		} else if d.By != decision.ByCalibrate && !slices.Contains(others, d.Select.String()) {
			others = append(others, d.Select.String())
		}
	}
	switch {
	case len(numbers) > 0:
		return numbers, nil
	case len(others) > 0:
		return nil, fmt.Errorf("no decision in force has the selector %s; there are %s", what, strings.Join(others, "; "))
	}
	return nil, fmt.Errorf("no decision in force has the selector %s", what)
}

// Step changes the list of decisions as edit does and derives anew.
func Step(ctx context.Context, j *open.Job, threads int, edit func(p *plan.Plan) (plan.Step, error)) (*DecideResult, error) {
	c, err := NewChange(ctx, j, threads)
	why := err
	if Lost(err) {
		c, err = changeWithout(j, threads)
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.stands(); err != nil {
		return nil, err
	}
	next := *c.Planned.Plan
	step, err := edit(&next)
	if errors.Is(err, plan.ErrFirst) {
		return nil, fmt.Errorf("%s: %w; %s.bak is the plan that was there before the last command", c.Planned.File, err, c.Planned.File)
	}
	if err != nil {
		return nil, &fault.FileError{File: c.Planned.File, Err: err}
	}
	if was, is := TunedFile(c.Planned.File, c.Planned.Plan), TunedFile(c.Planned.File, &next); Lost(why) && was != nil && is != nil &&
		was.SHA256 == is.SHA256 {
		return nil, why // what is left needs the lost values too
	}
	out, err := c.Derive(ctx, &next)
	if err != nil {
		return nil, err
	}
	return c.result(out, step), c.write(&next, out)
}

// Rederive makes the plan's numbers those that this program derives from its decisions.
func Rederive(ctx context.Context, j *open.Job, threads int) (*DecideResult, error) {
	c, err := NewChange(ctx, j, threads)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Other != "" {
		c.Note("%s: scales computed again; first change at %s", c.Planned.File, c.Other)
	}
	next := *c.Planned.Plan
	next.Target = TargetEntry(c.Planned.Target)
	out, err := c.Derivation.Remembered(ctx, &next)
	if err != nil {
		return nil, err
	}
	return c.result(out, nil), c.write(&next, out)
}

// SentToFloat names, in graph order, the nodes that a user, a recipe or a search sent to float, with those that went along.
func SentToFloat(g *graph.Graph, set *tqc.Set) []string {
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

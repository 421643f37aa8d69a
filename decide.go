package qwb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qwb/calib"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// calibrated is the decision that a calibration begins with.
func calibrated(o tqc.Observer, perTensor, reduceRange bool) decision.Decision {
	d := decision.Decision{By: decision.ByCalibrate, Properties: decision.Properties{Observer: o, PerTensor: &perTensor}}
	if reduceRange {
		d.ReduceRange = &reduceRange
	}
	return d
}

// dispatched is the decision about the dispatcher.
func dispatched(t *target.Target, strategy string, cost *float64) decision.Decision {
	if strategy == "" {
		strategy = dispatch.Strategies[0].Name
	}
	if cost == nil {
		own := t.BorderCost
		cost = &own
	}
	return decision.Decision{By: decision.ByTarget, Properties: decision.Properties{Dispatcher: strategy, BorderCost: cost}}
}

// check holds the options to what can be said without a model.
func (o *CalibrateOptions) check() error {
	if err := checkObserver(o.Observer); err != nil {
		return UsageError{err}
	}
	if _, err := dispatch.FindStrategy(o.Dispatcher); err != nil {
		return UsageError{err}
	}
	if o.BorderCost != nil {
		if err := (&decision.Decision{By: decision.ByTarget, Properties: decision.Properties{BorderCost: o.BorderCost}}).Check(); err != nil {
			return UsageError{fmt.Errorf("border cost: %w", err)}
		}
	}
	return nil
}

// before is the plan that calibrating will replace, whose decisions are kept: nil where there is none of this model, or where it is to
// be forgotten.
func (j *job) before(ctx context.Context, m *Model, o CalibrateOptions) (*plan.Plan, error) {
	if o.Fresh {
		return nil, nil
	}
	p, _, err := j.readPlan(j.Plan)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		j.warn("%v; a new plan replaces it, and %s.bak keeps it", err, j.Plan)
		return nil, nil
	}
	if p.Model.SHA256 != m.Digest {
		j.warn("%s was a plan of another model; a new plan replaces it, and %s.bak keeps it", j.Plan, j.Plan)
		return nil, nil
	}
	if p.Options == nil {
		if edited, err := p.Edited(); err != nil || !edited {
			return p, err
		}
	}
	c, err := j.change(ctx, o.Threads) // brings version 1 over, and says what was edited
	if err != nil {
		return nil, fmt.Errorf("%w; qwb calibrate --fresh forgets what was decided", err)
	}
	defer c.close()
	return c.p.Plan, nil
}

// calibrated is the plan of statistics, without its nodes: the inputs, what the options and the recipe decide, and what was decided
// about the plan before. While the inputs are the same, and its tuned values are there, that plan's history goes on; otherwise what is
// in force of it, tuned values excepted, is where the new one begins.
func (j *job) calibrated(m *Model, before *plan.Plan, stats *calib.Stats, t *target.Target, o CalibrateOptions, g given, recipe *recipeSteps) (*plan.Plan, error) {
	pre, err := parsePreprocessKey(stats.Preprocess)
	if err != nil {
		return nil, fmt.Errorf("calibrate: the statistics' preprocessing: %w", err)
	}
	ranges, err := stats.RangesHash()
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	next := &plan.Plan{Meta: plan.Meta{
		Model:      plan.File{Path: plan.Relative(j.Plan, j.Model), SHA256: m.Digest},
		Data:       plan.Data{Paths: planPaths(j.Plan, stats.Sources), Hash: plan.DataHash(sampleHashes(stats)), Synthetic: slices.ContainsFunc(stats.Sources, isSynthetic), Classes: stats.Classes(scores(m.Graph))},
		Preprocess: pre, Samples: stats.Samples(), Seed: int64(stats.Seed), Ranges: ranges, Platform: t.Name, Profile: t.Profile, Target: targetEntry(t),
	}}
	observer := o.Observer
	if observer == "" {
		observer = t.Activation.Observer
	}
	step := append([]decision.Decision{calibrated(observer, o.PerTensor, o.ReduceRange), dispatched(t, o.Dispatcher, o.BorderCost)}, decisionsOf(recipe.First)...)
	step[0].Evidence = g.evidence
	step = append(step, g.more...)
	if before == nil {
		next.Decide(step...)
		return next, nil
	}
	was, err := before.Inputs()
	if err != nil {
		return nil, err
	}
	is, err := next.Inputs()
	if err != nil {
		return nil, err
	}
	var lost error // tuned values that are gone or changed: no history can go on from them
	if file := tunedFile(j.Plan, before); file != nil {
		var o *overlay.Overlay
		if o, lost = j.readOverlay(j.Plan, file); lost == nil {
			_, lost = o.Reference(m.Graph)
		}
		if lost == nil {
			_, _, lost = j.stepped(j.Plan, before, stats)
		}
	}
	if was == is && lost == nil {
		next.Decisions, next.Steps, next.Redo = before.Decisions, before.Steps, before.Redo
		if !begins(before.Decisions, step) {
			next.Decide(step...)
			j.noteChosen(before.Decisions)
		}
		return next, nil
	}
	kept, tuned := 0, false
	for i, counts := range decision.InForce(before.Decisions) {
		d := before.Decisions[i]
		switch {
		case !counts || d.Default() || len(d.Unset) > 0 || d.By == decision.ByCalibrate:
		case d.Overlay != "" || d.Method != "":
			tuned = true // made for the scales of the other inputs
		case d.By == decision.ByRecipe && recipe.has(&d):
		default:
			step, kept = append(step, d), kept+1
		}
	}
	next.Decide(step...)
	switch {
	case was == is:
		j.warn("the tuned values of %s are missing or changed and are not used; run qwb tune again", j.Plan)
	case tuned:
		j.note("%s: tuned values belonged to the earlier plan and are not used; run qwb tune again", j.Plan)
	}
	if kept > 0 {
		j.note("%s: kept %d decisions of the earlier plan (qwb plan log lists them, --fresh drops them)", j.Plan, kept)
	}
	return next, nil
}

// noteChosen says that decisions about operators and tensors stand over what calibrating decides for all.
func (j *job) noteChosen(list []decision.Decision) {
	n := 0
	for i, counts := range decision.InForce(list) {
		if d := &list[i]; counts && d.By != decision.ByCalibrate && len(d.Select) > 0 {
			n++
		}
	}
	if n > 0 {
		j.note("%s: %d earlier decisions about operators and tensors stay in force (qwb plan log lists them, --fresh drops them)", j.Plan, n)
	}
}

// begins reports whether the last calibration of a list decided what a step decides, so that doing it again changes nothing.
func begins(list, step []decision.Decision) bool {
	for i := len(list) - 1; i >= 0; i-- {
		if d := &list[i]; d.By == decision.ByCalibrate && len(d.Select) == 0 {
			if len(list)-i < len(step) {
				return false
			}
			for k := range step {
				a, err := list[i+k].Encode()
				b, err2 := step[k].Encode()
				if err != nil || err2 != nil || string(a) != string(b) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// DecideResult is what set, unset, undo, redo and rederive print with --json.
type DecideResult struct {
	Plan string `json:"plan"`
	// Decisions are those that were made, undone or done again.
	Decisions []decision.Decision `json:"decisions"`
	// Governed says of slots that were selected whose scale the decision went to.
	Governed []Governed `json:"governed,omitempty"`
	FP32     []string   `json:"fp32"` // as dispatch has it
	// Runs are the outcomes of earlier commands on the plan that undo or redo led back to.
	Runs     []Outcome     `json:"runs,omitempty"`
	Warnings []tqc.Warning `json:"warnings"`
}

// Governed is a slot that takes its scale from another.
type Governed struct {
	Decision int    `json:"decision"` // its number
	Slot     string `json:"slot"`
	By       string `json:"by"`
}

// result describes what became of a change.
func (c *change) result(out *derived, list []decision.Decision) *DecideResult {
	r := &DecideResult{Plan: c.Plan, Decisions: list, FP32: sentToFloat(out.Graph, out.Set), Warnings: c.warnings}
	if r.Decisions == nil {
		r.Decisions = []decision.Decision{}
	}
	if r.Warnings == nil {
		r.Warnings = []tqc.Warning{}
	}
	for _, m := range out.Effects.Moved {
		r.Governed = append(r.Governed, Governed{m.Number, slotName(out.Graph, out.Set, m.From), slotName(out.Graph, out.Set, m.To)})
	}
	return r
}

// set decides properties of what is selected.
func (j *job) set(ctx context.Context, selector string, words []string, threads int) (*DecideResult, error) {
	p, err := decision.ParseProperties(words)
	d := decision.Decision{By: decision.ByUser, Select: decision.Select{selector}, Properties: p}
	switch {
	case len(words) == 0:
		return nil, Usagef("set %s: no property given; add KEY=VALUE", selector)
	case err != nil:
		return nil, UsageError{err}
	}
	if err := d.Check(); err != nil {
		return nil, UsageError{err}
	}
	if p.Dispatcher != "" {
		if _, err := dispatch.FindStrategy(p.Dispatcher); err != nil {
			return nil, UsageError{err}
		}
	}
	if p.Freeze != nil && !*p.Freeze {
		return nil, Usagef("freeze=false: take back the decision freeze=true with qwb unset")
	}
	c, err := j.change(ctx, threads)
	if err != nil {
		return nil, err
	}
	defer c.close()
	step := []decision.Decision{d}
	if p.Freeze != nil && len(p.Scale) == 0 {
		if step, err = c.frozen(d); err != nil {
			return nil, err
		}
	}
	if p.Activations != (tqc.Scheme{}) || p.Weights != (tqc.Scheme{}) || p.Align != "" {
		c.accept = c.exportable
	}
	first := len(c.p.Plan.Decisions)
	out, err := c.decide(ctx, step...)
	if err != nil {
		return nil, err
	}
	r := c.result(out, step)
	r.Governed = slices.DeleteFunc(r.Governed, func(g Governed) bool { return g.Decision <= first })
	return r, nil
}

// preview opens the plan as set would make it. Nothing is written, and what it returns has to be closed.
func (j *job) preview(ctx context.Context, selector string, words []string, threads int) (*Planned, []tqc.Warning, error) {
	q := *j.project
	q.Store, q.Events = &scratch{base: j.store()}, nil
	of := &job{project: &q, ctx: ctx}
	if _, err := of.set(ctx, selector, words, threads); err != nil {
		return nil, of.warnings, err
	}
	r, err := of.openPlan(of.Plan)
	return r, of.warnings, err
}

// frozen is a decision to freeze with the scales that are there: one for each slot that governs what is selected.
func (c *change) frozen(d decision.Decision) ([]decision.Decision, error) {
	sel, err := d.Select.Selector()
	if err != nil {
		return nil, err
	}
	m, err := sel.Match(c.p.Graph, c.p.Set)
	if err != nil {
		return nil, err
	}
	if len(m.Nodes) > 0 {
		n := c.p.Graph.Node(m.Nodes[0]).Name
		return nil, fmt.Errorf("freeze is of one tensor: select %s:in0, %s:weight or %s:out0, not the operator %q", n, n, n, n)
	}
	var step []decision.Decision
	seen := map[tqc.SlotID]bool{}
	for _, s := range m.Slots {
		root := c.p.Set.Root(s)
		if seen[root] {
			continue
		}
		seen[root] = true
		p := c.p.Set.Params(root)
		if !p.Ready() {
			return nil, fmt.Errorf("%s has no scale to freeze", slotName(c.p.Graph, c.p.Set, s))
		}
		one := d
		one.Select = decision.Select{slotSelector(c.p.Graph, c.p.Set, root)}
		one.Scale, one.ZeroPoint = p.Scale, p.ZeroPoint
		step = append(step, one)
	}
	return step, nil
}

// unset takes decisions back: one by its number (#3), or all in force with a selector.
func (j *job) unset(ctx context.Context, what string, threads int) (*DecideResult, error) {
	number := 0
	if digits, ok := strings.CutPrefix(what, "#"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 {
			return nil, Usagef("%s is not the number of a decision: #3", what)
		}
		number = n
	}
	c, err := j.change(ctx, threads)
	if err != nil {
		return nil, err
	}
	defer c.close()
	numbers, err := unsettable(c.p.Plan.Decisions, what, number)
	if err != nil {
		return nil, &FileError{File: c.p.File, Err: err}
	}
	step := []decision.Decision{{By: decision.ByUser, Unset: numbers}}
	out, err := c.decide(ctx, step...)
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
			return nil, fmt.Errorf("decision #%d (%s) is a default and cannot be taken back: change it with qwb calibrate", number, list[number-1].String())
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

// step changes the list of decisions as edit does and derives anew.
func (j *job) step(ctx context.Context, threads int, edit func(p *plan.Plan) (plan.Step, error)) (*DecideResult, error) {
	c, err := j.change(ctx, threads)
	why := err
	if lost(err) {
		c, err = j.changeWithout(threads)
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.stands(); err != nil {
		return nil, err
	}
	next := *c.p.Plan
	step, err := edit(&next)
	if errors.Is(err, plan.ErrFirst) {
		return nil, fmt.Errorf("%s: %w; %s.bak is the plan that was there before the last command", c.p.File, err, c.p.File)
	}
	if err != nil {
		return nil, &FileError{File: c.p.File, Err: err}
	}
	if was, is := tunedFile(c.p.File, c.p.Plan), tunedFile(c.p.File, &next); lost(why) && was != nil && is != nil && was.SHA256 == is.SHA256 {
		return nil, why // what is left needs the lost values too
	}
	out, err := c.derive(ctx, &next)
	if err != nil {
		return nil, err
	}
	return c.result(out, step), c.write(&next, out)
}

// rederive makes the plan's numbers those that this program derives from its decisions.
func (j *job) rederive(ctx context.Context, threads int) (*DecideResult, error) {
	c, err := j.change(ctx, threads)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if c.other != "" {
		c.note("%s: scales computed again; first change at %s", c.p.File, c.other)
	}
	next := *c.p.Plan
	next.Target = targetEntry(c.p.Target)
	out, err := c.d.remembered(ctx, &next)
	if err != nil {
		return nil, err
	}
	return c.result(out, nil), c.write(&next, out)
}

package calibrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/calib"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/recipe"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
)

// Check holds the options to what can be said without a model.
func (o *Options) Check() error {
	if err := open.CheckObserver(o.Observer); err != nil {
		return fault.UsageError{Err: err}
	}
	if _, err := dispatch.FindStrategy(o.Dispatcher); err != nil {
		return fault.UsageError{Err: err}
	}
	if o.BorderCost != nil {
		if err := (&decision.Decision{By: decision.ByTarget, Properties: decision.Properties{BorderCost: o.BorderCost}}).Check(); err != nil {
			return fault.UsageError{Err: fmt.Errorf("border cost: %w", err)}
		}
	}
	return nil
}

// earlier is the plan that calibrating will replace, or begins from, whose decisions are kept: nil where there is none of this model, or
// where it is to be forgotten.
func earlier(ctx context.Context, j *open.Job, m *open.Model, o Options) (*plan.Plan, error) {
	if o.Fresh {
		return nil, nil
	}
	if o.From != "" {
		other := *j.Project
		other.Plan, other.Stats = o.From, ""
		j = (&open.Job{Project: &other}).In(ctx)
	}
	p, _, err := j.ReadPlan(j.Plan)
	if o.From != "" && err != nil {
		return nil, err
	}
	if o.From != "" && p.Model.SHA256 != m.Digest {
		return nil, fmt.Errorf("%s is a plan of another model", o.From)
	}
	if store.Missing(err) {
		return nil, nil
	}
	if err != nil {
		j.Warn("%v; a new plan replaces it, and %s.bak keeps it", err, j.Plan)
		return nil, nil
	}
	if p.Model.SHA256 != m.Digest {
		j.Warn("%s was a plan of another model; a new plan replaces it, and %s.bak keeps it", j.Plan, j.Plan)
		return nil, nil
	}
	if p.Options == nil {
		if edited, err := p.Edited(); err != nil || !edited {
			return p, err
		}
	}
	c, err := planning.NewChange(ctx, j, o.Threads) // brings version 1 over, and says what was edited
	if err != nil {
		return nil, fmt.Errorf("%w; qwb calibrate --fresh forgets what was decided", err)
	}
	defer c.Close()
	return c.Planned.Plan, nil
}

// nextPlan is the plan of statistics, without its nodes: the inputs, what the options and the recipe decide, and what was decided
// about the plan before. While the inputs are the same, and its tuned values are there, that plan's history goes on; otherwise what is
// in force of it, tuned values excepted, is where the new one begins.
func nextPlan(j *open.Job, m *open.Model, before *plan.Plan, stats *calib.Stats, t *target.Target, o Options, g Given,
	steps *recipe.Steps) (*plan.Plan, error) {
	pre, err := planning.ParsePreprocessKey(stats.Preprocess)
	if err != nil {
		return nil, fmt.Errorf("calibrate: the statistics' preprocessing: %w", err)
	}
	ranges, err := stats.RangesHash()
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	next := &plan.Plan{Meta: plan.Meta{
		Model: plan.File{Path: plan.Relative(j.Plan, j.Model), SHA256: m.Digest},
		Data: plan.Data{Paths: open.PlanPaths(j.Plan, stats.Sources), Hash: plan.DataHash(planning.SampleHashes(stats)),
			Synthetic: slices.ContainsFunc(stats.Sources, open.IsSynthetic), Classes: stats.Classes(open.Scores(m.Graph))},
		Preprocess: pre, Samples: stats.Samples(), Seed: int64(stats.Seed), Ranges: ranges, Platform: t.Name, Profile: t.Profile,
		Target: planning.TargetEntry(t),
	}}
	step := decided(t, o, g, steps)
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
	if file := planning.TunedFile(j.Plan, before); file != nil && o.From == "" {
		var o *overlay.Overlay
		if o, lost = planning.ReadOverlay(j, j.Plan, file, m.Graph); lost == nil {
			_, lost = o.Reference(m.Graph)
		}
		if lost == nil {
			_, _, lost = planning.Stepped(j, j.Plan, before, stats)
		}
	}
	if was == is && lost == nil && o.From == "" {
		next.Decisions, next.Steps, next.Redo = before.Decisions, before.Steps, before.Redo
		if !begins(before.Decisions, step) {
			next.Decide(step...)
			noteChosen(j, before.Decisions)
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
		case d.By == decision.ByRecipe && steps.Has(&d):
		default:
			step, kept = append(step, d), kept+1
		}
	}
	if own := tuned || kept > 0 || before.Imported != nil; own && was != is && o.Beside {
		aside(j, m, before.Platform != t.Name, t.Name)
	}
	next.Decide(step...)
	switch {
	case was == is && lost != nil:
		j.Warn("the tuned values of %s are missing or changed and are not used; run qwb tune again", j.Plan)
	case tuned:
		j.Note("%s: tuned values belonged to the earlier plan and are not used; run qwb tune again", j.Plan)
	}
	if kept > 0 {
		j.Note("%s: kept %d decisions of the earlier plan (qwb plan log lists them, --fresh drops them)", j.Plan, kept)
	}
	return next, nil
}

// aside gives the plan that comes a name that is free, so that the one that is there stays as it is.
func aside(j *open.Job, m *open.Model, other bool, target string) {
	own, name := *j.Project, strings.TrimSuffix(j.Plan, store.PlanSuffix)
	if other {
		name += "." + target
	}
	own.Plan, own.Stats = store.FreePlan(j.Files(), name), ""
	j.Note("%s has decisions of its own and stays as it is; %s for %s is %s (-o %s replaces it)", j.Plan,
		map[bool]string{true: "the plan", false: "the plan of other data"}[other], target, own.Plan, j.Plan)
	j.Project = &own
}

// decided is what the options and the first steps of recipes decide.
func decided(t *target.Target, o Options, g Given, steps *recipe.Steps) []decision.Decision {
	observer := o.Observer
	if observer == "" {
		observer = t.Activation.Observer
	}
	step := append([]decision.Decision{planning.CalibrationDecision(observer, o.PerTensor, o.ReduceRange),
		planning.DispatcherDecision(t, o.Dispatcher, o.BorderCost)}, recipe.Decisions(steps.First)...)
	step[0].Evidence = g.Evidence
	return append(step, g.More...)
}

// noteChosen says that decisions about operators and tensors stand over what calibrating decides for all.
func noteChosen(j *open.Job, list []decision.Decision) {
	n := 0
	for i, counts := range decision.InForce(list) {
		if d := &list[i]; counts && d.By != decision.ByCalibrate && len(d.Select) > 0 {
			n++
		}
	}
	if n > 0 {
		j.Note("%s: %d earlier decisions about operators and tensors stay in force (qwb plan log lists them, --fresh drops them)", j.Plan, n)
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

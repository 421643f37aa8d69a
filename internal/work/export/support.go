package export

import (
	"context"
	"fmt"

	"qwb/analysis"
	"qwb/calib"
	"qwb/export"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Support says where the operators of a model run on a platform: as it is dispatched without further instructions, and as the writer of
// the platform's usual format takes it. Scales are made up; nothing runs, and nothing is left behind.
func Support(ctx context.Context, j *open.Job, model, platform string) (*analysis.Support, error) {
	t, err := j.KnownTarget(platform)
	if err != nil {
		return nil, err
	}
	m, err := j.OpenNormal(model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	fail := func(err error) error { return &fault.FileError{Stage: "inspect", File: model, Err: err} }
	d := &planning.Derivation{Graph: m.Graph, Reference: m.Graph, Target: t, Stats: calib.Assumed(m.Graph), Own: j.Catalog.Observers,
		Threads: 1}
	list := []decision.Decision{planning.CalibrationDecision(tqc.ObserverMinMax, false, false)}
	assigned := &planning.Derived{Graph: m.Graph}
	forced, err := d.Forced(list, assigned)
	if err != nil {
		return nil, fail(err)
	}
	if err := d.Assign(assigned, forced); err != nil {
		return nil, fail(err)
	}
	s, err := analysis.NewSupport(m.Graph, t, assigned.Assignment)
	if err != nil {
		return nil, fail(err)
	}
	if f, err := export.ForPlatform(j.Catalog.Formats, t.Name, t.Format); err == nil {
		s.Format = f.Name
	}
	out, err := d.Derive(ctx, list)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.Untried = untried(j, m, t, err)
	if s.Tried = s.Untried == ""; !s.Tried {
		return s, nil
	}
	file := &open.Model{Model: m.WithGraph(out.Graph), Path: m.Path, Digest: m.Digest}
	p := &planning.Planned{Model: file, Plan: &plan.Plan{Meta: plan.Meta{Platform: t.Name, Profile: t.Profile}}, Set: out.Set, Target: t,
		Reference: m.Graph, Catalog: &j.Catalog}
	s.Refuse(Refusal(ctx, j, p, Zeros(m.Graph), 1))
	return s, ctx.Err()
}

// untried says why the writer of a format is not asked; empty: it is. derived is why there is no plan of made-up statistics.
func untried(j *open.Job, m *open.Model, t *target.Target, derived error) string {
	switch {
	case derived != nil:
		return "a plan of made-up ranges cannot be made: " + derived.Error()
	case Zeros(m.Graph) == nil:
		return "sizes of inputs are open: qwb bind writes a copy with fixed ones"
	case export.WeightBytes(m.Graph) > triedBytes:
		return fmt.Sprintf("the weights have more than %d MB", triedBytes>>20)
	case usual(j, t) == nil:
		return "the platform names no format"
	}
	return ""
}

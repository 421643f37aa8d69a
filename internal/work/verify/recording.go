package verify

import (
	"context"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data/recording"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
)

// openRecordings reads recordings as one.
func openRecordings(j *open.Job, names []string) (*recording.Recording, error) {
	list := make([]*recording.Recording, len(names))
	for i, name := range names {
		var err error
		if list[i], err = recording.Open(j.Files(), name); err != nil {
			return nil, err
		}
		j.Detail("%s: %s of form %s", name, plain.Count(len(list[i].Names()), "tensor"), list[i].Form)
	}
	return recording.Join(list...), nil
}

// verifyAgainst holds recorded tensors against the plan, and tries all profiles.
func verifyAgainst(ctx context.Context, j *open.Job, p *planning.Planned, profile qmath.Profile,
	o Options) (*analysis.Verification, error) {
	d, err := openRecordings(j, o.Against)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	own, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	backend, err := j.Catalog.Backend("")
	if err != nil {
		return nil, err
	}
	cfg := verify.AgainstConfig{Set: p.Set, Program: own, Backend: backend, Threads: o.Threads}
	var refused []analysis.ProfileFit
	for _, other := range qmath.Profiles() {
		if other.Name == profile.Name {
			continue
		}
		lowered, err := lower.CompileBy(p.Graph, p.Set, p.Target, other, lower.Options{Context: ctx, Partial: true})
		if err != nil {
			refused = append(refused, analysis.ProfileFit{Profile: other.Name, Why: fault.OneLine(err)})
			continue
		}
		cfg.Others = append(cfg.Others, lowered)
	}
	tick, finish := j.Progress("verify", len(own.Steps)*(1+len(cfg.Others)))
	defer finish()
	cfg.Progress = tick
	elapsed := j.Stopwatch()
	v, err := verify.Against(ctx, d, cfg)
	if err != nil {
		return nil, &fault.FileError{File: strings.Join(o.Against, ", "), Err: err}
	}
	v.Fits = append(v.Fits, refused...)
	v.Seconds, v.EngineKnown = elapsed(), engineKnown(p, v.Profile)
	v.EngineFaults = engineFaults(p, v)
	return v, nil
}

// engineFaults are the known faults of the target's engine that operators meet which it computed otherwise.
func engineFaults(p *planning.Planned, v *analysis.Verification) []analysis.EngineFault {
	var of []*target.Rounded
	for _, t := range v.PerTensor {
		if id, ok := p.Graph.LookupNode(t.Node); ok && t.Different > 0 {
			of = append(of, target.OfPlan(p.Graph, p.Set, id))
		}
	}
	return analysis.MetBy(target.FaultsOf(p.Target.Name, ""), of)
}

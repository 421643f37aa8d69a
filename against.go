package qwb

import (
	"context"
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data/recording"
	"qwb/internal/plain"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// openRecordings reads recordings as one.
func (j *job) openRecordings(names []string) (*recording.Recording, error) {
	list := make([]*recording.Recording, len(names))
	for i, name := range names {
		var err error
		if list[i], err = recording.Open(j.store(), name); err != nil {
			return nil, err
		}
		j.detail("%s: %s of form %s", name, plain.Count(len(list[i].Names()), "tensor"), list[i].Form)
	}
	return recording.Join(list...), nil
}

// verifyAgainst holds recorded tensors against the plan, and tries all profiles.
func (j *job) verifyAgainst(ctx context.Context, p *Planned, profile qmath.Profile, o VerifyOptions) (*analysis.Verification, error) {
	d, err := j.openRecordings(o.Against)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	own, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	backend, err := j.Catalog.backend("")
	if err != nil {
		return nil, err
	}
	cfg := verify.AgainstConfig{Set: p.Set, Program: own, Backend: backend, Threads: o.Threads}
	var refused []analysis.ProfileFit
	for _, other := range qmath.Profiles() {
		if other.Name == profile.Name {
			continue
		}
		lowered, err := lower.CompilePartial(p.Graph, p.Set, p.Target, other)
		if err != nil {
			refused = append(refused, analysis.ProfileFit{Profile: other.Name, Why: oneLine(err)})
			continue
		}
		cfg.Others = append(cfg.Others, lowered)
	}
	tick, finish := j.progress("verify", len(own.Steps)*(1+len(cfg.Others)))
	defer finish()
	cfg.Progress = tick
	elapsed := j.stopwatch()
	v, err := verify.Against(ctx, d, cfg)
	if err != nil {
		return nil, &FileError{File: strings.Join(o.Against, ", "), Err: err}
	}
	v.Fits = append(v.Fits, refused...)
	v.Seconds, v.EngineKnown = elapsed(), p.engineKnown(v.Profile)
	return v, nil
}

package tune

import (
	"context"
	"math"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

// Simulated is what the errors of a tuning are of where no integers are run.
const Simulated = "simulation"

// objective says what tuning judges by. The simulation stands for the integers where both come to the same errors on the held-out samples;
// where they differ, by more than 1 % and more than two standard errors, or where a profile is asked for, the integers are run. Those of
// powers of two differ in how they round alone, and what is tried is simulated with that.
func (t *tuning) objective(ctx context.Context, o Options) (string, error) {
	profile, err := t.Planned.ProfileNamed(o.Profile)
	if err != nil {
		return "", err
	}
	integers, err := Integers(t.Planned, profile, o.Threads)
	if o.Profile != "" {
		t.by(profile, integers)
		return profile.Name, err
	}
	if err != nil || len(t.Bench.Held) == 0 {
		return Simulated, nil
	}
	b := *t.Bench
	b.Integers = integers
	run, err := b.Losses(ctx)
	if err != nil { // float in a precision that is not executed, for one
		t.Detail("tune: judged by the simulation: %v", err)
		return Simulated, nil
	}
	b.Integers = nil
	sim, err := b.Losses(ctx)
	if err != nil {
		return "", err
	}
	d := analysis.Paired(sim.PerSample(), run.PerSample())
	if off := math.Abs(d.Mean); off <= 0.01*sim.Estimate().Mean || off <= 2*d.Error {
		return Simulated, nil
	}
	t.Note("judged by the integers of profile %s: their error is %.2g, the simulation's is %.2g", profile.Name, run.Estimate().Mean,
		sim.Estimate().Mean)
	t.by(profile, integers)
	return profile.Name, nil
}

// by has integers of a profile judge.
func (t *tuning) by(profile qmath.Profile, integers func(*graph.Graph, *tqc.Set) (analysis.Forward, error)) {
	if t.Bench.Integers = integers; profile.Family == qmath.PowerOfTwo && !profile.Own {
		t.rounding = profile.Rounding
	}
}

// Integers returns what makes the program of a graph under a profile run; what has no integer form in it is simulated.
func Integers(p *planning.Planned, profile qmath.Profile,
	threads int) (func(g *graph.Graph, set *tqc.Set) (analysis.Forward, error), error) {
	backend, err := p.Catalog.Present("")
	if err != nil {
		return nil, err
	}
	return func(g *graph.Graph, set *tqc.Set) (analysis.Forward, error) {
		lowered, err := lower.CompilePartial(g, set, p.Target, profile)
		if err != nil {
			return nil, &fault.FileError{File: p.File, Err: err}
		}
		x, err := program.New(lowered, backend, threads)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
			return x.Run(ctx, feeds, nil)
		}, nil
	}, nil
}

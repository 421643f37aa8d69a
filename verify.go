package qwb

import (
	"context"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
)

// VerifySamples is how many samples a verification takes unless told otherwise.
const VerifySamples = 8

// VerifyOptions are the arguments of verify.
type VerifyOptions struct {
	Backend string
	Profile string // empty: the platform's
	// Against are recordings of one input, taken together, instead of a data set: files or folders in any form of package recording.
	Against []string
	Dump    string // folder for test vectors
	// Patterns is a folder for test vectors of what repeats.
	Patterns string
	Data     DataOptions
	Threads  int
}

// Divergence is a verification that does not hold in one line.
func Divergence(v *analysis.Verification) string {
	switch v.Verdict {
	case analysis.VerdictNothing:
		if v.BitExact != nil {
			return "no integers were recorded together with what they are computed from: nothing was compared"
		}
		return "no operator of the plan runs on integers: nothing was compared"
	case analysis.VerdictNotFinite:
		if v.NotFinite == nil {
			return "NaN would become a code, which engines choose as they like"
		}
		return v.NotFinite.Line()
	case analysis.VerdictOther:
		own := v.Fit(v.Profile)
		s := fmt.Sprintf("the engine is not profile %s: %d of %d integers are others, though real arithmetic explains them", v.Profile,
			own.Different, own.Compared)
		if best := v.Fits[0]; best.Share() < own.Share() {
			s += fmt.Sprintf("; %s explains all but %d", best.Profile, best.Different)
		}
		return s
	}
	s := fmt.Sprintf("%d integers differ", v.IntegersDifferent)
	if n := len(v.Static.Faults); n > 0 {
		s = fmt.Sprintf("%d numbers of the program are not the plan's, ", n) + s
	}
	if d := v.First; d != nil {
		s += fmt.Sprintf("; first at node %q, tensor %q, element %d: %s %v, expected %v by the %s", d.Node, d.Tensor, d.Index, d.What, d.Got, d.Expected, d.ExpectedBy)
	}
	return s
}

// Diverged is Divergence as the CheckError of a command: where numbers are not finite Describe names the operator that makes them.
func Diverged(command string, v *analysis.Verification, then string) error {
	if v.NotFinite != nil {
		return CheckError{fmt.Errorf("%s: %w%s", command, &notFiniteError{found: v.NotFinite}, then)}
	}
	return Checkf("%s: %s%s", command, Divergence(v), then)
}

// verify runs a verification and writes its outcome into the plan.
func (j *job) verify(ctx context.Context, o VerifyOptions) (*analysis.Verification, error) {
	backend, err := j.Catalog.backend(o.Backend)
	if err != nil {
		return nil, err
	}
	p, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.fresh("verify"); err != nil {
		return nil, err
	}
	profile, err := p.ProfileNamed(o.Profile)
	if err != nil {
		return nil, err
	}
	if len(o.Against) > 0 {
		return j.verifyAgainst(ctx, p, profile, o)
	}
	if err := here(backend); err != nil {
		return nil, err
	}
	if o.Dump != "" || o.Patterns != "" { // which hold the whole program
		if _, err := p.Program(profile); err != nil {
			return nil, fmt.Errorf("test vectors need a plan that runs completely on integers: %w", err)
		}
	}
	lowered, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	v, err := j.verifyPlan(ctx, p, lowered, backend, o.Data, nil)
	if err != nil {
		return nil, err
	}
	v.IntegerShare = integerShare(p.Graph, p.Set.Domains)
	if err := p.record(lowered, v); err != nil {
		return nil, err
	}
	if o.Dump != "" || o.Patterns != "" {
		if err := j.dumpVectors(ctx, p, profile, o); err != nil {
			return nil, err
		}
	}
	if err := j.rewritePlan(p, p.Plan); err != nil {
		return v, err
	}
	if v.NotFinite == nil { // which is said already
		j.warnBad(ctx, p, o.Data, o.Threads)
	}
	return v, nil
}

// profile finds an arithmetic profile, that of the platform for an empty name.
func (p *Planned) ProfileNamed(name string) (qmath.Profile, error) {
	r, err := p.Target.ProfileNamed(name)
	if err != nil {
		return r, UsageError{err}
	}
	return r, nil
}

// Partial lowers the plan as far as it has an integer form; the rest are steps that simulate.
func (p *Planned) Partial(profile qmath.Profile) (*lower.Program, error) {
	q, err := lower.CompilePartial(p.Graph, p.Set, p.Target, profile)
	if err != nil {
		return nil, &FileError{File: p.File, Err: err}
	}
	return q, nil
}

// Program lowers the plan. A part without an integer form is an error.
func (p *Planned) Program(profile qmath.Profile) (*lower.Program, error) {
	q, err := lower.Compile(p.Graph, p.Set, p.Target, profile)
	if err != nil {
		return nil, &FileError{File: p.File, Err: err}
	}
	return q, nil
}

// Executor prepares the plan's program under a profile, for batches of so many samples.
func (p *Planned) Executor(backend string, profile qmath.Profile, batch, threads int) (*program.Executor, error) {
	b, err := p.catalog.present(backend)
	if err != nil {
		return nil, err
	}
	g := p.Graph
	if batch > 1 {
		if g, err = graph.OpenBatch(g); err != nil {
			return nil, p.Named("--batch", err)
		}
	}
	lowered, err := lower.Compile(g, p.Set, p.Target, profile)
	if err != nil {
		return nil, &FileError{File: p.File, Err: err}
	}
	x, err := program.New(lowered, b, threads)
	if err == nil && p.watch != nil {
		p.watch(p, x)
	}
	return x, err
}

// verifyPlan verifies the program of a plan on a data set, the plan's own unless one is given. sums gets hashes of its integers; nil: nobody does.
func (j *job) verifyPlan(ctx context.Context, p *Planned, program *lower.Program, backend program.Backend, o DataOptions, sums *verify.Sums) (*analysis.Verification, error) {
	for _, w := range program.Warnings {
		j.warn("%s", w)
	}
	set, whole, err := j.verifyData(p, o)
	if err != nil {
		return nil, err
	}
	s, err := sim.New(p.Graph, p.Set, sim.Options{})
	if err != nil {
		return nil, err
	}
	tick, finish := j.progress("verify", set.Len()*len(program.Steps))
	defer finish()
	elapsed := j.stopwatch()
	samples := &hashed{Iterator: set.Iterator()}
	v, err := verify.Run(ctx, samples, verify.Config{Set: p.Set, Program: program, Backend: backend, Simulator: s,
		Threads: o.Threads, Memory: o.Budget, Progress: tick, Sums: sums})
	if err != nil {
		return nil, err
	}
	if v.Suspect {
		if err := j.foundIn(ctx, p, v, o, set.Iterator()); err != nil {
			return nil, err
		}
	}
	v.Seconds, v.EngineKnown = elapsed(), p.engineKnown(v.Profile)
	v.Data, v.DataHash, v.Whole = plan.RealData, plan.DataHash(samples.hashes), whole
	if slices.ContainsFunc(p.Data(o).Paths, isSynthetic) {
		v.Data = plan.SyntheticData
	}
	return v, nil
}

// hashed keeps the hashes of the samples that went through.
type hashed struct {
	exec.Iterator
	hashes [][32]byte
}

// Next implements exec.Iterator.
func (h *hashed) Next(ctx context.Context) (*exec.Sample, error) {
	s, err := h.Iterator.Next(ctx)
	if err == nil {
		h.hashes = append(h.hashes, s.Hash)
	}
	return s, err
}

// verifyData opens what to verify on: 8 samples unless a number was asked for. whole says that these are all of the data.
func (j *job) verifyData(p *Planned, o DataOptions) (set *data.Set, whole bool, err error) {
	asked := o.Samples
	if len(o.Paths) == 0 {
		set, err = j.planData(p, o, VerifySamples)
		return set, false, err
	}
	if asked == 0 {
		all, _, err := j.openData(p.Graph, p.Data(o))
		if err != nil {
			return nil, false, err
		}
		if o.Samples = min(VerifySamples, all.Len()); o.Samples == all.Len() {
			return all, true, nil
		}
	}
	set, _, err = j.openData(p.Graph, p.Data(o))
	return set, err == nil && set.Len() < asked, err
}

// record puts the outcome of a verification into the plan in memory.
func (p *Planned) record(program *lower.Program, v *analysis.Verification) error {
	outcome, err := p.outcome(program, v)
	if err == nil {
		p.Plan.Verification = outcome
	}
	return err
}

// outcome is what a plan keeps of a verification of its program.
func (p *Planned) outcome(program *lower.Program, v *analysis.Verification) (out *plan.Verification, err error) {
	out = &plan.Verification{Profile: v.Profile, Backend: v.Backend, Samples: v.Samples, Data: v.Data, DataHash: v.DataHash, Whole: v.Whole, Verdict: v.Verdict}
	if v.Share != nil {
		share := v.Share.Part()
		out.Share = &share
	}
	out.Digest, err = p.identity(program, out)
	return out, err
}

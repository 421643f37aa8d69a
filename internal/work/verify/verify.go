// Package verify runs a plan as integers and holds them against what the plan says that they are.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/analysis/verify"
	"qwb/calib/data"
	"qwb/graph/exec"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
)

// Options are the arguments of verify.
type Options struct {
	Backend string
	Profile string // empty: the platform's
	// Against are recordings of one input, taken together, instead of a data set: files or folders in any form of package recording.
	Against []string
	Dump    string // folder for test vectors
	// Patterns is a folder for test vectors of what repeats.
	Patterns string
	Data     open.DataOptions
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
		s += fmt.Sprintf("; first at node %q, tensor %q, element %d: %s %v, expected %v by the %s", d.Node, d.Tensor, d.Index, d.What, d.Got,
			d.Expected, d.ExpectedBy)
	}
	return s
}

// Diverged is Divergence as the fault.CheckError of a command: where numbers are not finite Describe names the operator that makes them.
func Diverged(command string, v *analysis.Verification, then string) error {
	if v.NotFinite != nil {
		return fault.CheckError{Err: fmt.Errorf("%s: %w%s", command, &fault.NotFiniteError{Found: v.NotFinite}, then)}
	}
	return fault.Checkf("%s: %s%s", command, Divergence(v), then)
}

// Run runs a verification and writes its outcome into the plan. Where that cannot be written, the outcome is returned beside the error.
func Run(ctx context.Context, j *open.Job, o Options) (*analysis.Verification, error) {
	backend, err := j.Catalog.Backend(o.Backend)
	if err != nil {
		return nil, err
	}
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.Fresh("verify"); err != nil {
		return nil, err
	}
	profile, err := p.ProfileNamed(o.Profile)
	if err != nil {
		return nil, err
	}
	if len(o.Against) > 0 {
		if shard.In(ctx) != nil {
			return nil, fault.Usagef("verify --against is of one input and has no parts")
		}
		return verifyAgainst(ctx, j, p, profile, o)
	}
	if err := open.Here(backend); err != nil && !shard.In(ctx).IsMerge() {
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
	v, err := verifyPlan(ctx, j, p, lowered, backend, o.Data, nil)
	if err != nil {
		return nil, err
	}
	v.IntegerShare = planning.IntegerShare(p.Graph, p.Set, p.Target)
	if v.NotFinite == nil { // which is said already
		if v.NotFinite = planning.WarnBad(ctx, j, p, o.Data, o.Threads); v.NotFinite != nil { // in other samples
			v.Verdict = analysis.VerdictNotFinite
		}
	}
	if err := record(p, lowered, v); err != nil {
		return nil, err
	}
	if o.Dump != "" || o.Patterns != "" {
		if err := dumpVectors(ctx, j, p, profile, o); err != nil {
			return v, err
		}
	}
	if err := planning.RewritePlan(j, p, p.Plan); err != nil {
		return v, err
	}
	return v, nil
}

// verifyPlan verifies the program of a plan on a data set, the plan's own unless one is given. sums gets hashes of its integers; nil:
// nobody does.
func verifyPlan(ctx context.Context, j *open.Job, p *planning.Planned, program *lower.Program, backend program.Backend, o open.DataOptions,
	sums *verify.Sums) (*analysis.Verification, error) {
	for _, w := range program.Warnings {
		j.Warn("%s", w)
	}
	set, whole, err := Data(j, p, o)
	if err != nil {
		return nil, err
	}
	s, err := sim.New(p.Graph, p.Set, sim.Options{})
	if err != nil {
		return nil, err
	}
	tick, finish := j.Progress("verify", set.Len()*len(program.Steps))
	defer finish()
	elapsed := j.Stopwatch()
	it, deal := samples.Dealt(ctx, set, false)
	read := &hashed{Iterator: OwnStates(j, it, program, o.Threads)}
	v, err := verify.Run(ctx, read, verify.Config{Set: p.Set, Program: program, Backend: backend, Simulator: s,
		Threads: o.Threads, Memory: o.Budget, Progress: tick, Sums: sums, Deal: deal})
	if err != nil && !errors.Is(err, shard.ErrDone) {
		return nil, err
	}
	hashes, hashErr := shard.All(deal.Run, "hashes", read.hashes)
	if err = cmp.Or(hashErr, err); err != nil {
		return nil, err
	}
	if v.Suspect {
		if err := planning.FindIn(ctx, j, p, v, o, set.Iterator()); err != nil {
			return nil, err
		}
	}
	v.Seconds, v.EngineKnown = elapsed(), engineKnown(p, v.Profile)
	v.Data, v.DataHash, v.Whole = plan.RealData, plan.DataHash(hashes), whole
	if slices.ContainsFunc(p.Data(o).Paths, open.IsSynthetic) {
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

// Data opens what to verify on: 8 samples unless a number was asked for. whole says that these are all of the data.
func Data(j *open.Job, p *planning.Planned, o open.DataOptions) (set *data.Set, whole bool, err error) {
	asked := o.Samples
	if len(o.Paths) == 0 {
		set, err = planning.PlanData(j, p, o, samples.VerifySamples)
		return set, false, err
	}
	if asked == 0 {
		all, _, err := j.OpenData(p.Graph, p.Data(o))
		if err != nil {
			return nil, false, err
		}
		if o.Samples = min(samples.VerifySamples, all.Len()); o.Samples == all.Len() {
			return all, true, nil
		}
	}
	set, _, err = j.OpenData(p.Graph, p.Data(o))
	return set, err == nil && set.Len() < asked, err
}

// record puts the outcome of a verification into the plan in memory.
func record(p *planning.Planned, program *lower.Program, v *analysis.Verification) error {
	outcome, err := outcomeOf(p, program, v)
	if err == nil {
		p.Plan.Verification = outcome
	}
	return err
}

// outcomeOf is what a plan keeps of a verification of its program.
func outcomeOf(p *planning.Planned, program *lower.Program, v *analysis.Verification) (out *plan.Verification, err error) {
	out = &plan.Verification{Profile: v.Profile, Backend: v.Backend, Samples: v.Samples, Data: v.Data, DataHash: v.DataHash, Whole: v.Whole,
		Verdict: v.Verdict}
	if v.Share != nil {
		share := v.Share.Part()
		out.Share = &share
	}
	out.Digest, err = Identity(p, program, out)
	return out, err
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.Picked[analysis.Verification]("profile backend samples verdict tensors integers_compared " +
	"integers_different ties max_difference")

package export

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/analysis/verify"
	"qwb/export"
	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	workverify "qwb/internal/work/verify"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/qdq"
	"qwb/quantizer/tqc"
)

// readBack reads what was written of a plan, compares every number with the plan, and refuses it where one differs. Without verification
// that is a warning.
func readBack(ctx context.Context, j *open.Job, f *export.Format, in *export.Input, out *export.Output, r *Result,
	unverified bool) (err error) {
	if r.ReadBack, err = f.Equal(ctx, in, out); err == nil {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unverified:
		j.Warn("%v", err)
		return nil
	}
	return fault.CheckError{Err: fmt.Errorf("%w; nothing was written (--unverified writes it)", err)}
}

// backRun runs the program of a file that was written on the samples of the plan's verification. That verification, where it is made now,
// leaves the plan's program and its integers.
type backRun struct {
	job     *open.Job
	plan    *planning.Planned
	profile qmath.Profile
	options Options
	workverify.Compiled
}

// run takes the graph of what was read back apart as an import does, lowers it under the profile of the plan, and compares all integers.
// What cannot be run is said with its reason; what is the program of a plan that was verified before is not run again.
func (b *backRun) run(ctx context.Context, back *export.Readback) (export.Ran, error) {
	j, p, g := b.job, b.plan, back.Graph
	if !slices.ContainsFunc(b.Program.Tensors, func(t lower.Tensor) bool { return t.Counts() }) {
		return export.Ran{Not: "no operator of the plan runs on integers"}, nil
	}
	if err := g.Adopt(j.Catalog.Operators); err != nil {
		return export.Ran{}, err
	}
	other, err := importedProgram(ctx, g, p, b.profile)
	if ctx.Err() != nil {
		return export.Ran{}, context.Cause(ctx)
	}
	if err != nil {
		return export.Ran{Not: err.Error()}, nil
	}
	if b.Sums == nil && verify.SameProgram(ctx, b.Program, other) {
		return export.Ran{Same: true, Not: "it is the plan's, which was verified before"}, nil
	}
	set, _, err := workverify.Data(j, p, open.DataOptions{Threads: b.options.Threads, Samples: b.options.Samples})
	if errors.Is(err, open.ErrNoData) {
		return export.Ran{Not: "the plan has no data of its own"}, nil
	}
	if err != nil {
		return export.Ran{}, err
	}
	backend, err := j.Catalog.Backend("")
	if err != nil {
		return export.Ran{}, err
	}
	samples := workverify.OwnStates(j, set.Iterator(), b.Program, b.options.Threads)
	r, err := verify.Twin(ctx, b.Program, other, back.Axes, b.Sums, samples, set.Len(), backend, b.options.Threads)
	if err != nil {
		return export.Ran{}, fmt.Errorf("export: %w", err)
	}
	return export.Ran{Same: r.Same, Samples: r.Samples, Integers: r.Integers, Of: r.Of}, nil
}

// importedProgram is the program of a graph with pairs, as far as it has an integer form.
func importedProgram(ctx context.Context, g *graph.Graph, p *planning.Planned, profile qmath.Profile) (*lower.Program, error) {
	q, err := qdq.Read(ctx, g)
	if err != nil {
		return nil, err
	}
	im, err := q.Configure(p.Target)
	if err != nil {
		return nil, err
	}
	for s := range tqc.SlotID(im.Set.NumSlots()) { // which no file says: engines have one
		if slot := im.Set.Slot(s); im.Graph.Const(slot.Value) == nil {
			slot.Config.Rounding = p.Target.Activation.Rounding
		}
	}
	return lower.CompileBy(im.Graph, im.Set, p.Target, profile, lower.Options{Context: ctx, Partial: true, Codes: im.Codes})
}

package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	workexport "qwb/internal/work/export"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/recipe"
	"qwb/kernels/qmath"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// writable refuses, before anything runs, a model whose plan the platform's format has no form for, with all reasons. The plan is that of
// made-up statistics, and ranges are not searched; where it cannot be made, or sizes of inputs are only known from samples, nothing is said
// yet: refused asks again.
func writable(ctx context.Context, j *open.Job, m *open.Model, before *plan.Plan, t *target.Target, o Options, g Given,
	steps *recipe.Steps) error {
	sample := workexport.Zeros(m.Graph)
	if sample == nil || g.Stats != nil || len(o.Merge) > 0 || len(o.Data.Paths) == 0 {
		return nil
	}
	o.Observer = tqc.ObserverMinMax
	var earlier []decision.Decision
	if before != nil {
		if planning.TunedFile(j.Plan, before) != nil {
			return nil // what was tuned has statistics of its own
		}
		earlier = before.Decisions
	}
	d := &planning.Derivation{Graph: m.Graph, Reference: m.Graph, Target: t, Stats: calib.Assumed(m.Graph), Own: j.Catalog.Observers,
		Threads: o.Threads}
	try := func() (derived bool, err error) {
		out, err := d.Derive(ctx, slices.Concat(earlier, decided(t, o, g, steps)))
		if err != nil {
			return false, ctx.Err()
		}
		err = Refusal(ctx, j, m, out, t, sample, o.Threads)
		if scales := (*qmath.ScaleError)(nil); errors.As(err, &scales) {
			return true, nil // of made-up ranges; the real ones may do
		}
		return true, err
	}
	_, err := try()
	if err != nil && o.BorderCost == nil && ctx.Err() == nil {
		o.BorderCost = new(float64)
		if derived, other := try(); derived && other == nil {
			return fmt.Errorf("%w (with --border-cost 0 more operators run on integers, and it can be exported)", err)
		}
	}
	return err
}

// refused refuses a plan that the platform's format has no form for before it is written. Statistics that were observed for it are kept.
func refused(ctx context.Context, j *open.Job, m *open.Model, out *planning.Derived, t *target.Target, stats *calib.Stats,
	o Options) error {
	sample := workexport.Zeros(m.Graph)
	if kept := stats.Kept(); len(kept) > 0 {
		sample = kept[0].Feeds
	}
	err := Refusal(ctx, j, m, out, t, sample, o.Threads)
	if err == nil || len(o.Data.Paths) == 0 {
		return err
	}
	if ctx.Err() != nil {
		return keep(j, stats, stats.Samples(), j.StatsFile(), err)
	}
	file := planning.PartFile(j, j.StatsFile())
	if planning.SaveStats(j, stats, stats.Samples(), file) == nil {
		j.Note("%s keeps the statistics: calibrating for another platform reads no data again", file)
	}
	return err
}

// mostlyFloat is the share of the work on integers below which a refusal names it: there, that is the larger news.
const mostlyFloat = 0.5

// Refusal is why the format of a platform has no form for what was derived for it; nil where it has one. sample is the first of the data.
func Refusal(ctx context.Context, j *open.Job, m *open.Model, out *planning.Derived, t *target.Target, sample map[string]*tensor.Tensor,
	threads int) error {
	file := &open.Model{Model: m.WithGraph(out.Graph), Path: m.Path, Digest: m.Digest}
	p := &plan.Plan{Meta: plan.Meta{Platform: t.Name, Profile: t.Profile}}
	err := workexport.Refusal(ctx, j, &planning.Planned{Model: file, File: j.Plan, Plan: p, Set: out.Set, Target: t, Reference: m.Graph,
		Catalog: &j.Catalog}, sample, threads)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		share := ""
		if s := planning.IntegerShare(out.Graph, out.Set, t); s != nil && *s < mostlyFloat {
			share = "; it would have " + reports.IntegerShare(s)
		}
		return fmt.Errorf("calibrate: a plan for %s could not be exported: %w%s", t.Name, err, share)
	}
	warnUntouched(j, out, t)
	return nil
}

// warnUntouched warns once of a plan that quantizes nothing.
func warnUntouched(j *open.Job, out *planning.Derived, t *target.Target) {
	for i := range out.Set.NumSlots() {
		if out.Set.Slot(tqc.SlotID(i)).State().Quantizes() {
			return
		}
	}
	why, cure := map[string]bool{}, ""
	var reasons []string
	nodes := out.Graph.Nodes() // the largest first: why a Gather is float is no news
	arrange.Stable(nodes, func(a, b graph.NodeID) int {
		x, _ := out.Graph.MACsAtLeast(a)
		y, _ := out.Graph.MACsAtLeast(b)
		return cmp.Compare(y, x)
	})
	for _, id := range nodes {
		switch d := out.Set.Domains[id]; d {
		case tqc.DomainFP32:
			n := out.Graph.Node(id)
			text, key := n.Op+": "+out.Assignment.Why[id], out.Assignment.Why[id]
			if strings.HasPrefix(key, dispatch.ByCost+": ") {
				key, cure = n.Op+" costs", "; --border-cost 0 quantizes what does not pay, too"
			}
			if !why[key] && len(reasons) < 4 {
				why[key], reasons = true, append(reasons, text)
			}
		case tqc.DomainSOI:
		default:
			return
		}
	}
	w := tqc.Warning{Text: fmt.Sprintf("nothing of this model is quantized for %s (%s): export writes such a plan with --unverified alone%s",
		t.Name, strings.Join(reasons, "; "), cure)}
	if !slices.Contains(j.Warnings, w) {
		j.WarnAbout(w)
	}
}

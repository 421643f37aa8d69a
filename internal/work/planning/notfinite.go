package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// NotFinite reports whether an error is that of numbers which are none: in an output, or in front of a quantizer.
func NotFinite(err error) bool {
	var code *tqc.NaN
	var output *task.NaN
	return errors.Is(err, analysis.ErrNotFinite) || errors.As(err, &code) || errors.As(err, &output)
}

// watch remembers what runs a plan, for located.
func watch(j *open.Job, p *Planned, run open.PlanRun) { j.Ran(p.File, run) }

// Met is the same of runs that are over: tensors in which one of a plan, or of what a search made of it, met such numbers.
func Met(j *open.Job, p *Planned, names []string) {
	if len(names) > 0 {
		watch(j, p, oddTensors(names))
	}
}

type oddTensors []string

// Infinite implements open.PlanRun.
func (t oddTensors) Infinite() []string { return t }

// suspects lists the plans whose runs met numbers that are not finite, all plans that ran with all, and on how many samples each is worth
// being looked at: on fewer where all tensors that are concerned have infinite numbers in float too, as those of a mask have.
func suspects(j *open.Job, all bool) (files []string, taken map[string]int) {
	taken = map[string]int{}
	for _, w := range j.Watched() {
		names, n := w.Run.Infinite(), LookAt
		switch {
		case len(names) == 0 && !all:
			continue
		case len(names) > 0 && !all && infiniteInFloat(j, w.File, names):
			n = samples.VerifySamples
		}
		if taken[w.File] == 0 {
			files = append(files, w.File)
		}
		taken[w.File] = max(taken[w.File], n)
	}
	return files, taken
}

// infiniteInFloat reports whether the statistics of a plan have infinite numbers of all of some tensors.
func infiniteInFloat(j *open.Job, file string, names []string) bool {
	name := store.StatsPath(file)
	if file == j.Plan {
		name = j.StatsFile()
	}
	stats, _, err := ReadStats(j, name, nil)
	return err == nil && Infinite(stats, names)
}

// Infinite reports whether statistics have infinite numbers of all of some tensors.
func Infinite(stats *calib.Stats, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		t := stats.Tensor(name)
		return t == nil || t.State.Infinite() == 0
	})
}

// Located says of a command that ran plans and met NaN or infinite numbers, wherever that was, and whether it failed with them or they
// became codes, which operator makes the first of them that float does not have, why, and what helps: a fault.CheckError, with the
// command's result where there is one. Other errors stay as they are.
func Located(ctx context.Context, j *open.Job, err error, o open.DataOptions, threads int) error {
	if err != nil && !NotFinite(err) {
		return err
	}
	files, samples := suspects(j, err != nil)
	if err != nil && len(files) == 0 && j.Plan != "" {
		files, samples = []string{j.Plan}, map[string]int{j.Plan: LookAt}
	}
	for _, file := range files {
		at := j
		if file != j.Plan {
			p := *j.Project
			p.Plan, p.Model, p.Stats = file, "", ""
			at = &open.Job{Project: &p}
		}
		if f, unknown := findNotFinite(ctx, at, o, samples[file], threads); unknown == nil && f != nil {
			return fault.CheckError{Err: &fault.NotFiniteError{Found: f, Err: err}}
		}
	}
	return err
}

// Changed is located for a command that has written the plan: what was found is a warning then, as of calibrate.
func Changed(ctx context.Context, j *open.Job, err error, o open.DataOptions, threads int) error {
	found := Located(ctx, j, err, o, threads)
	if none := (*fault.NotFiniteError)(nil); err == nil && errors.As(found, &none) {
		WarnFound(j, none.Found)
		return nil
	}
	return found
}

// WarnNotFinite warns of it as of a bad plan, after a command that has done what it should: where measuring the plan failed with err, or an
// infinite number became a code on the way.
func WarnNotFinite(ctx context.Context, j *open.Job, infinite bool, err error, o open.DataOptions, threads int) {
	if f := met(ctx, j, infinite, err, o, threads); f != nil {
		WarnFound(j, f)
	}
}

// met finds what WarnNotFinite warns of; nil: nothing.
func met(ctx context.Context, j *open.Job, infinite bool, err error, o open.DataOptions, threads int) *analysis.NotFinite {
	if !NotFinite(err) && !(err == nil && infinite) {
		return nil
	}
	f, err := findNotFinite(ctx, j, o, LookAt, threads)
	if err != nil {
		j.Warn("this plan is bad: there are values that are not finite; the operator that makes them was not found: %v", err)
	}
	return f
}

// WarnFound warns of it as of a bad plan.
func WarnFound(j *open.Job, f *analysis.NotFinite) {
	j.WarnAbout(tqc.Warning{Node: f.Node, Text: "this plan is bad: it " + strings.TrimPrefix(f.Line(), f.Node+" ("+f.Op+") ")})
}

// LookAt is on how many samples of the data numbers that are not finite are looked for.
const LookAt = 64

// findNotFinite looks in the samples that the statistics of the plan keep, and then in the first ones of the data, at most so many; nil:
// there is none.
func findNotFinite(ctx context.Context, j *open.Job, o open.DataOptions, most, threads int) (*analysis.NotFinite, error) {
	p, err := openToChange(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if stats, err := PlanStats(j, p); err == nil {
		if f, err := cured(ctx, j, p, KeptSamples(stats), threads); err != nil || f != nil {
			return f, err
		}
	}
	set, err := PlanData(j, p, o, most)
	if err != nil {
		return nil, err
	}
	list, err := samples.First(ctx, set.Iterator(), most)
	if err != nil {
		return nil, err
	}
	return cured(ctx, j, p, list, threads)
}

// FindIn puts into a verification what its samples show.
func FindIn(ctx context.Context, j *open.Job, p *Planned, v *analysis.Verification, o open.DataOptions, taken exec.Iterator) error {
	list, err := samples.First(ctx, taken, LookAt)
	if err != nil {
		return err
	}
	if v.NotFinite, err = cured(ctx, j, p, list, o.Threads); err == nil && v.NotFinite != nil {
		v.Verdict = analysis.VerdictNotFinite
	}
	return err
}

// cured finds the first number that is none in float, and a qwb set after which none of the samples has one, tried on copies of the plan in
// memory.
func cured(ctx context.Context, j *open.Job, p *Planned, samples []*exec.Sample, threads int) (*analysis.NotFinite, error) {
	q, err := p.Simulator()
	if err != nil {
		return nil, err
	}
	s := &Search{Graph: p.Graph, Target: p.Target, Reference: p.Reference, Samples: samples}
	if p.File == j.Plan {
		s.With = func(selector string) (*tqc.Set, *sim.Simulator, error) {
			r, _, err := Preview(ctx, j, selector, []string{"domain=fp32"}, threads)
			if err != nil {
				return nil, nil, err
			}
			defer r.Close()
			q, err := r.Simulator()
			return r.Set, q, err
		}
	}
	f, selector, err := s.Find(ctx, p.Set, q)
	if selector != "" {
		f.Cure = "qwb set " + plain.Shell(p.File, selector, "domain=fp32")
	}
	return f, err
}

// Mend adds to a plan's last step that operators stay float where those on integers give the kept samples numbers that are none in float
// (a divisor that is rounded to 0), and returns what is derived then, or out where there is nothing to do, nothing helps, or somebody has
// decided about these operators. met is what KeptLosses returned for out.
func (d *Derivation) Mend(ctx context.Context, p *plan.Plan, out *Derived, met error) (*Derived, []tqc.Warning, error) {
	if d.Kept == nil || !NotFinite(met) && (met != nil || Infinite(d.Stats, d.Kept.Infinite)) {
		return out, nil, nil
	}
	q, err := d.Simulator(out, &d.Kept.Shared)
	if err != nil {
		return out, nil, err
	}
	f, selector, err := d.Search(ctx, out, p.Decisions, KeptSamples(d.Stats)).Find(ctx, out.Set, q)
	if err != nil || selector == "" {
		return out, nil, ctx.Err()
	}
	more := inFloat(decision.ByCalibrate, selector)
	sel, err := more.Select.Selector()
	if err != nil {
		return out, nil, err
	}
	m, err := sel.Match(out.Graph, out.Set)
	if err != nil || slices.ContainsFunc(m.Nodes, func(id graph.NodeID) bool { return out.Table.Nodes[id].By("domain") > 0 }) {
		return out, nil, err
	}
	more.Goal = fmt.Sprintf("on integers %s (%s): %s", f.Node, f.Op, f.Why)
	p.Also(more)
	mended, err := d.Remembered(ctx, p)
	return mended, []tqc.Warning{{Node: f.Node, Text: selector + " stay float: on integers " + f.String()}}, err
}

// inFloat is the decision that operators stay float.
func inFloat(by decision.By, selector string) decision.Decision {
	return decision.Decision{By: by, Select: decision.Select{selector}, Properties: decision.Properties{Domain: decision.FP32}}
}

// Search looks for numbers that are none in float, and for what has to be FP32 for there to be none.
type Search struct {
	Graph     *graph.Graph
	Target    *target.Target
	Reference *graph.Graph
	Samples   []*exec.Sample
	// with makes the plan with what a selector means in FP32; nil: nothing can be tried.
	With func(selector string) (*tqc.Set, *sim.Simulator, error)
}

// Search is one in samples, which tries what follows from a list of decisions and one more.
func (d *Derivation) Search(ctx context.Context, out *Derived, list []decision.Decision, samples []*exec.Sample) *Search {
	return &Search{Graph: out.Graph, Target: d.Target, Reference: cmp.Or(d.Reference, d.Graph), Samples: samples,
		With: func(selector string) (*tqc.Set, *sim.Simulator, error) {
			more, err := d.Derive(ctx, append(slices.Clip(list), inFloat(decision.ByUser, selector)))
			if err != nil {
				return nil, nil, err
			}
			q, err := d.Simulator(more, nil)
			return more.Set, q, err
		}}
}

// Find finds the first such number, and a selector of operators that mend it: ever more of those in front of it are tried. The selector is
// empty where none was found.
func (s *Search) Find(ctx context.Context, set *tqc.Set, q *sim.Simulator) (f *analysis.NotFinite, selector string, err error) {
	f, err = analysis.FindNotFinite(ctx, s.Reference, q, s.Samples)
	if err != nil || f == nil || s.With == nil {
		return f, "", err
	}
	b, err := s.Target.Bind(s.Graph)
	if err != nil {
		return f, "", nil
	}
	var chosen []graph.NodeID
	at := f.At
	for range 8 {
		more := roundedBefore(b, set, at)
		if len(more) == 0 {
			break
		}
		chosen = append(chosen, more...)
		slices.Sort(chosen)
		chosen = slices.Compact(chosen)
		var names []string
		for _, id := range chosen {
			names = append(names, strings.ReplaceAll(s.Graph.Node(id).Name, ",", `\,`))
		}
		selector := strings.Join(names, ",")
		if set, q, err = s.With(selector); err != nil {
			break // the target takes them along with others; nothing is advised
		}
		left, err := analysis.FindNotFinite(ctx, s.Reference, q, s.Samples)
		if err != nil {
			return f, "", err
		}
		if left == nil {
			return f, selector, nil
		}
		at = left.At
	}
	return f, "", nil
}

// roundedBefore lists the nearest operators on integers that a node's numbers come from, the node itself among them: the pieces of what is
// computed there (target.Bound.Pieces); without any those that sum no products and are not computed together with one that does; without
// those the products.
func roundedBefore(b *target.Bound, set *tqc.Set, at graph.NodeID) []graph.NodeID {
	var pieces, near, products []graph.NodeID
	seen := map[graph.NodeID]bool{}
	var visit func(id graph.NodeID)
	visit = func(id graph.NodeID) {
		if id == graph.NoNode || seen[id] {
			return
		}
		seen[id] = true
		n := b.Graph.Node(id)
		integer, sp := set.Domains[id] == tqc.DomainInt, n.Spec()
		switch {
		case integer && (sp != nil && sp.Kind == graph.KindComputing || b.Heads[id] != graph.NoNode):
			products = append(products, id)
			return
		case integer && b.Pieces[id] != "":
			pieces = append(pieces, id)
		case integer:
			near = append(near, id)
		}
		for _, v := range n.Inputs {
			if v != graph.NoValue {
				visit(b.Graph.Producer(v))
			}
		}
	}
	visit(at)
	for _, list := range [][]graph.NodeID{pieces, near} {
		if len(list) > 0 {
			return list
		}
	}
	return products
}

package qwb

import (
	"context"
	"errors"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// notFinite reports whether an error is that of numbers which are none: in an output, or in front of a quantizer.
func notFinite(err error) bool {
	var code *tqc.NaN
	var output *task.NaN
	return errors.Is(err, analysis.ErrNotFinite) || errors.As(err, &code) || errors.As(err, &output)
}

// watch remembers what runs a plan, for located.
func (j *job) watch(p *Planned, run planRun) { j.ran(p.File, run) }

// met is the same of runs that are over: tensors in which one of a plan, or of what a search made of it, met such numbers.
func (j *job) met(p *Planned, names []string) {
	if len(names) > 0 {
		j.watch(p, oddTensors(names))
	}
}

type oddTensors []string

// Infinite implements planRun.
func (t oddTensors) Infinite() []string { return t }

// suspects lists the plans whose runs met numbers that are not finite, all plans that ran with all, and on how many samples each is worth being looked
// at: on fewer where all tensors that are concerned have infinite numbers in float too, as those of a mask have.
func (j *job) suspects(all bool) (files []string, samples map[string]int) {
	samples = map[string]int{}
	for _, w := range j.watched() {
		names, n := w.run.Infinite(), lookAt
		switch {
		case len(names) == 0 && !all:
			continue
		case len(names) > 0 && !all && j.infiniteInFloat(w.file, names):
			n = VerifySamples
		}
		if samples[w.file] == 0 {
			files = append(files, w.file)
		}
		samples[w.file] = max(samples[w.file], n)
	}
	return files, samples
}

// infiniteInFloat reports whether the statistics of a plan have infinite numbers of all of some tensors.
func (j *job) infiniteInFloat(file string, names []string) bool {
	name := StatsPath(file)
	if file == j.Plan {
		name = j.stats()
	}
	stats, _, err := j.readStats(name)
	return err == nil && infinite(stats, names)
}

// infinite reports whether statistics have infinite numbers of all of some tensors.
func infinite(stats *calib.Stats, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		t := stats.Tensor(name)
		return t == nil || t.State.Infinite() == 0
	})
}

// located says of a command that ran plans and met NaN or infinite numbers, wherever that was, and whether it failed with them or they became codes,
// which operator makes the first of them that float does not have, why, and what helps: a CheckError, with the command's result where there is one. Other
// errors stay as they are.
func (j *job) located(ctx context.Context, err error, o DataOptions, threads int) error {
	if err != nil && !notFinite(err) {
		return err
	}
	files, samples := j.suspects(err != nil)
	if err != nil && len(files) == 0 && j.Plan != "" {
		files, samples = []string{j.Plan}, map[string]int{j.Plan: lookAt}
	}
	for _, file := range files {
		at := j
		if file != j.Plan {
			p := *j.project
			p.Plan, p.Model, p.Stats = file, "", ""
			at = &job{project: &p}
		}
		if f, unknown := at.findNotFinite(ctx, o, samples[file], threads); unknown == nil && f != nil {
			return CheckError{&notFiniteError{f, err}}
		}
	}
	return err
}

// changed is located for a command that has written the plan: what was found is a warning then, as of calibrate.
func (j *job) changed(ctx context.Context, err error, o DataOptions, threads int) error {
	found := j.located(ctx, err, o, threads)
	if none := (*notFiniteError)(nil); err == nil && errors.As(found, &none) {
		j.warnFound(none.found)
		return nil
	}
	return found
}

// notFiniteError is the error of a command that met numbers which are none, in the words of what makes the first of them.
type notFiniteError struct {
	found *analysis.NotFinite
	err   error // as the command met them; nil where they became codes
}

func (e *notFiniteError) Error() string { return e.found.Line() }

func (e *notFiniteError) Unwrap() error { return e.err }

// warnNotFinite warns of it as of a bad plan, after a command that has done what it should: where measuring the plan failed with err, or an infinite
// number became a code on the way.
func (j *job) warnNotFinite(ctx context.Context, infinite bool, err error, o DataOptions, threads int) {
	if !notFinite(err) && !(err == nil && infinite) {
		return
	}
	f, err := j.findNotFinite(ctx, o, lookAt, threads)
	switch {
	case err != nil:
		j.warn("this plan is bad: there are values that are not finite; the operator that makes them was not found: %v", err)
	case f != nil:
		j.warnFound(f)
	}
}

// warnFound warns of it as of a bad plan.
func (j *job) warnFound(f *analysis.NotFinite) {
	j.warnAbout(tqc.Warning{Node: f.Node, Text: "this plan is bad: it " + strings.TrimPrefix(f.Line(), f.Node+" ("+f.Op+") ")})
}

// lookAt is on how many samples of the data numbers that are not finite are looked for.
const lookAt = 64

// findNotFinite looks in the samples that the statistics of the plan keep, and then in the first ones of the data, at most so many; nil: there is none.
func (j *job) findNotFinite(ctx context.Context, o DataOptions, most, threads int) (*analysis.NotFinite, error) {
	p, err := j.openToChange(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if stats, err := j.planStats(p); err == nil {
		if f, err := j.cured(ctx, p, keptSamples(stats), threads); err != nil || f != nil {
			return f, err
		}
	}
	set, err := j.planData(p, o, most)
	if err != nil {
		return nil, err
	}
	list, err := someOf(ctx, set.Iterator(), most)
	if err != nil {
		return nil, err
	}
	return j.cured(ctx, p, list, threads)
}

// foundIn puts into a verification what its samples show.
func (j *job) foundIn(ctx context.Context, p *Planned, v *analysis.Verification, o DataOptions, samples exec.Iterator) error {
	list, err := someOf(ctx, samples, lookAt)
	if err != nil {
		return err
	}
	if v.NotFinite, err = j.cured(ctx, p, list, o.Threads); err == nil && v.NotFinite != nil {
		v.Verdict = analysis.VerdictNotFinite
	}
	return err
}

// cured finds the first number that is none in float, and a qwb set after which none of the samples has one, tried on copies of the plan in memory.
func (j *job) cured(ctx context.Context, p *Planned, samples []*exec.Sample, threads int) (*analysis.NotFinite, error) {
	q, err := p.Simulator()
	if err != nil {
		return nil, err
	}
	s := &search{graph: p.Graph, target: p.Target, reference: p.Reference, samples: samples}
	if p.File == j.Plan {
		s.with = func(selector string) (*tqc.Set, *sim.Simulator, error) {
			r, _, err := j.preview(ctx, selector, []string{"domain=fp32"}, threads)
			if err != nil {
				return nil, nil, err
			}
			defer r.Close()
			q, err := r.Simulator()
			return r.Set, q, err
		}
	}
	f, selector, err := s.find(ctx, p.Set, q)
	if selector != "" {
		f.Cure = "qwb set " + plain.Shell(p.File, selector, "domain=fp32")
	}
	return f, err
}

// search looks for numbers that are none in float, and for what has to be FP32 for there to be none.
type search struct {
	graph     *graph.Graph
	target    *target.Target
	reference *graph.Graph
	samples   []*exec.Sample
	// with makes the plan with what a selector means in FP32; nil: nothing can be tried.
	with func(selector string) (*tqc.Set, *sim.Simulator, error)
}

// find finds the first such number, and a selector of operators that mend it: ever more of those in front of it are tried. The selector is empty
// where none was found.
func (s *search) find(ctx context.Context, set *tqc.Set, q *sim.Simulator) (f *analysis.NotFinite, selector string, err error) {
	f, err = analysis.FindNotFinite(ctx, s.reference, q, s.samples)
	if err != nil || f == nil || s.with == nil {
		return f, "", err
	}
	b, err := s.target.Bind(s.graph)
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
			names = append(names, strings.ReplaceAll(s.graph.Node(id).Name, ",", `\,`))
		}
		selector := strings.Join(names, ",")
		if set, q, err = s.with(selector); err != nil {
			break // the target takes them along with others; nothing is advised
		}
		left, err := analysis.FindNotFinite(ctx, s.reference, q, s.samples)
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

// roundedBefore lists the nearest operators on integers that a node's numbers come from, the node itself among them: the pieces of what is computed there
// (target.Bound.Pieces); without any those that sum no products and are not computed together with one that does; without those the products.
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

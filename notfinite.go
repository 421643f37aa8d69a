package qwb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// notFinite reports whether an error is that of numbers which are none: in an output, or in front of a quantizer.
func notFinite(err error) bool {
	var code *tqc.NaN
	var output *task.NaN
	return errors.Is(err, analysis.ErrNotFinite) || errors.As(err, &code) || errors.As(err, &output)
}

// located says of a command that met NaN or infinite numbers, wherever that was, which operator of the plan makes the first of them that float does
// not have, why, and what helps. Other errors stay as they are.
func (j *job) located(ctx context.Context, err error, o DataOptions, threads int) error {
	if err == nil || !notFinite(err) || j.Plan == "" {
		return err
	}
	f, found := j.findNotFinite(ctx, o, threads)
	if found != nil || f == nil {
		return err
	}
	return &notFiniteError{f, err}
}

// notFiniteError is the error of a command that met numbers which are none, in the words of what makes the first of them.
type notFiniteError struct {
	found *analysis.NotFinite
	err   error // as the command met them
}

func (e *notFiniteError) Error() string { return e.found.Line() }

func (e *notFiniteError) Unwrap() error { return e.err }

// warnNotFinite warns of it as of a bad plan, after a command that has done what it should: where measuring the plan failed with err, or an infinite
// number became a code on the way.
func (j *job) warnNotFinite(ctx context.Context, infinite bool, err error, o DataOptions, threads int) {
	if !notFinite(err) && !(err == nil && infinite) {
		return
	}
	f, err := j.findNotFinite(ctx, o, threads)
	switch {
	case err != nil:
		j.warn("this plan is bad: there are values that are not finite; the operator that makes them was not found: %v", err)
	case f != nil:
		j.warnAbout(tqc.Warning{Node: f.Node, Text: "this plan is bad: it " + strings.TrimPrefix(f.Line(), f.Node+" ("+f.Op+") ")})
	}
}

// lookAt is on how many samples of the data numbers that are not finite are looked for.
const lookAt = 64

// findNotFinite looks in the samples that the statistics of the plan keep, and then in the first ones of the data; nil: there is none.
func (j *job) findNotFinite(ctx context.Context, o DataOptions, threads int) (*analysis.NotFinite, error) {
	p, err := j.openToChange(j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var kept []*exec.Sample
	if stats, err := j.planStats(p); err == nil {
		for i, k := range stats.Kept() {
			kept = append(kept, &exec.Sample{Name: fmt.Sprintf("kept %d", i+1), Hash: k.Hash, Feeds: k.Feeds})
		}
		if f, err := j.cured(ctx, p, kept, threads); err != nil || f != nil {
			return f, err
		}
	}
	set, err := j.planData(p, o, lookAt)
	if err != nil {
		return nil, err
	}
	list, err := someOf(ctx, set.Iterator(), lookAt)
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

// cured finds the first number that is none in float, and a command after which none of the samples has one: ever more operators in front of it are
// tried in FP32, each on a copy of the plan in memory.
func (j *job) cured(ctx context.Context, p *Planned, samples []*exec.Sample, threads int) (*analysis.NotFinite, error) {
	find := func(p *Planned) (*analysis.NotFinite, error) {
		q, err := p.Simulator()
		if err != nil {
			return nil, err
		}
		return analysis.FindNotFinite(ctx, p.Reference, q, samples)
	}
	f, err := find(p)
	if err != nil || f == nil || p.File != j.Plan {
		return f, err
	}
	b, err := p.Target.Bind(p.Graph)
	if err != nil {
		return f, nil
	}
	var chosen []graph.NodeID
	at, now := f.At, p
	for range 8 {
		more := roundedBefore(b, now.Set, at)
		if len(more) == 0 {
			break
		}
		chosen = append(chosen, more...)
		slices.Sort(chosen)
		chosen = slices.Compact(chosen)
		var names []string
		for _, id := range chosen {
			names = append(names, strings.ReplaceAll(p.Graph.Node(id).Name, ",", `\,`))
		}
		selector := strings.Join(names, ",")
		q, _, err := j.preview(ctx, selector, []string{"domain=fp32"}, threads)
		if err != nil {
			break // the target takes them along with others; nothing is advised
		}
		defer q.Close()
		left, err := find(q)
		if err != nil {
			return f, err
		}
		if left == nil {
			f.Cure = "qwb set " + plain.Shell(p.File, selector, "domain=fp32")
			break
		}
		at, now = left.At, q
	}
	return f, nil
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

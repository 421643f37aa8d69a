package tune

import (
	"context"
	"fmt"

	"qwb/analysis"
	"qwb/graph"
)

// Sweep goes through the operators once, in graph order, everything in front of each quantized and tuned already, and tries what each
// proposer proposes there, one proposer after the other. The best proposal of a proposer is kept if the squared error at the operator's own
// output, against the float lane, falls on the held-out samples by more than its error bar: paired, sample by sample, at the number of
// standard errors that all trials together need (analysis.Trials). What the next proposer sees is the operator as it is then.
func (b *Bench) Sweep(ctx context.Context, proposers ...*Proposer) (*Report, error) {
	report := &Report{Layers: []Layer{}}
	list, trials, err := b.asked(proposers)
	if err != nil || len(list) == 0 {
		return report, err
	}
	b.ready()
	w, err := b.walk(list, b.Fit)
	if err != nil {
		return nil, err
	}
	bar := analysis.Trials(trials)
	report.Layers, b.done = append(report.Layers, b.done...), nil
	for k := len(report.Layers); k < len(list); k++ {
		l := &Layer{Node: b.Graph.Node(list[k].node).Name, Tried: []Step{}, Why: "not tried: the budget is spent"}
		if !b.Work.over() {
			if l, err = w.layer(ctx, k, proposers, bar); err != nil {
				return nil, b.Graph.ErrorAt("", list[k].node, err)
			}
		}
		report.Layers = append(report.Layers, *l)
		if err := b.pass(report.Layers, false); err != nil {
			return nil, err
		}
		b.tell(k+1, len(list), report.kept())
	}
	return report, nil
}

// asked lists the layers that some proposer is asked about, and how many trials that makes.
func (b *Bench) asked(proposers []*Proposer) (list []layer, trials int, err error) {
	all, err := layers(b.Graph, b.Set)
	for _, l := range all {
		asked := false
		for _, p := range proposers {
			if p.asks(l) {
				asked, trials = true, trials+max(p.Trials, 1)
			}
		}
		if asked {
			list = append(list, l)
		}
	}
	return list, trials, err
}

// layer tries all proposers at layer k.
func (w *walk) layer(ctx context.Context, k int, proposers []*Proposer, bar float64) (*Layer, error) {
	l := w.list[k]
	look, float := false, false
	for _, p := range proposers {
		look, float = look || p.asks(l) && !p.Biases, float || p.asks(l) && p.Float
	}
	if err := w.enter(ctx, k, look); err != nil {
		return nil, err
	}
	samples := float64(len(w.states))
	w.forwards(2 * samples / float64(len(w.list)))
	n := w.Graph.Node(l.node)
	bench := &LayerBench{Bench: w.Bench, Node: l.node, Weight: w.Reference.Const(n.Inputs[graph.WeightInput]), Slot: l.weight,
		walk: w, float: float}
	first := w.held()
	out := &Layer{Node: n.Name, Tried: []Step{}}
	for _, p := range proposers {
		if !p.asks(l) {
			continue
		}
		proposals, err := p.Propose(ctx, bench)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if len(proposals) > max(p.Trials, 1) {
			return nil, fmt.Errorf("%s makes %d proposals, more than the %d it says", p.Name, len(proposals), p.Trials)
		}
		trials, err := w.try(ctx, proposals)
		if err != nil {
			return nil, err
		}
		if len(trials) == 0 {
			continue
		}
		step, best := w.judge(w.allowed(n.Name, trials), bar)
		if w.forwards(samples * w.share(l.node) * computed(trials)); step.Kept {
			w.set(l, best)
		}
		out.Tried = append(out.Tried, step)
	}
	out.conclude(change(first, w.held()))
	if w.leave(out.Kept); out.Kept {
		w.forwards(samples * w.share(l.node))
	}
	return out, nil
}

// computed is how many trials ran the operator.
func computed(trials []*trial) (n float64) {
	for _, t := range trials {
		if t.set != nil {
			n++
		}
	}
	return n
}

// held are the moments of the layer under way on the held-out samples.
func (w *walk) held() []moment {
	var list []moment
	for _, s := range w.states[w.fitting:] {
		list = append(list, s.now)
	}
	return list
}

// change is by how much the NSR at an operator's output changes.
func change(before, after []moment) analysis.Estimate {
	a, b := make([]float64, len(before)), make([]float64, len(after))
	for i := range a {
		a[i], b[i] = before[i].nsr(), after[i].nsr()
	}
	return analysis.Paired(a, b)
}

// judge says which trial lowers the held-out error most, and whether it is kept.
func (w *walk) judge(trials []*trial, bar float64) (Step, *trial) {
	if len(trials) == 0 {
		return Step{Why: "it did not help on either half alone"}, nil
	}
	var best *trial
	var least analysis.Estimate
	now := w.held()
	for _, t := range trials {
		if e := change(now, t.after[w.fitting:]); best == nil || better(e, least) {
			best, least = t, e
		}
	}
	s := Step{By: best.by, Trials: len(trials)}
	s.measured(least)
	if s.Kept = w.keeps(least, bar) || w.only != nil && least.Mean < 0; !s.Kept {
		s.Why = "the error at its output does not fall"
		if len(w.Held) >= analysis.MinHeldOut {
			s.Why += fmt.Sprintf(" by more than %.1f standard errors, which chance alone may reach in one of so many trials", bar)
		}
	}
	return s, best
}

// keeps reports whether a change of errors on the held-out samples is enough. Where the samples are too few to tell, what does not harm is
// kept: the whole is taken back or not; see Tune.
func (b *Bench) keeps(change analysis.Estimate, bar float64) bool {
	switch {
	case b.turn:
		return change.Below(analysis.Student(bar, change.N))
	case len(b.Held) < analysis.MinHeldOut:
		return b.Force || change.Mean < 0
	}
	return change.Below(bar)
}

// Package advise says what is wrong with a plan and what helps, by trying it.
package advise

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/arrange"
	"qwb/internal/work/measure"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/search"
	worktune "qwb/internal/work/tune"
	"qwb/observers"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Adviser finds out what is wrong with a plan and what helps.
type Adviser struct {
	*planning.Change
	o         measure.AnalyzeOptions
	Facts     *advise.Facts
	shifts    map[graph.NodeID][]float64
	kept      *planning.KeptRuns
	before    analysis.Losses         // of the plan, on the kept samples; of its integers where these saturate
	simulated analysis.Losses         // then of its simulation
	Cures     map[string]*advise.Cure // by command
	Predicted map[string]float64      // by command: the NSR that is to be expected
}

// Analyze measures the error of the plan's simulation and says what helps.
func Analyze(ctx context.Context, j *open.Job, o measure.AnalyzeOptions) (*analysis.Report, error) {
	return measure.Analyze(ctx, j, o, measure.More{
		Advice: func(ctx context.Context, p *planning.Planned, set *data.Set, r *analysis.Report, o measure.AnalyzeOptions) error {
			return advice(ctx, j, p, set, r, o)
		},
		Formats: func(ctx context.Context, p *planning.Planned, q *sim.Simulator, o measure.AnalyzeOptions) ([]measure.InFormat, error) {
			return inFormats(ctx, &planning.Change{Job: j, Planned: p}, q, o)
		}})
}

// inFormats derives the plan c, whose simulator is q, in other formats.
func inFormats(ctx context.Context, c *planning.Change, q *sim.Simulator, o measure.AnalyzeOptions) (list []measure.InFormat, err error) {
	if err := c.Open(ctx, o.Threads); err != nil {
		return nil, err
	}
	var nodes []graph.NodeID
	for _, g := range q.Groups() {
		if g.Output != graph.NoValue {
			nodes = append(nodes, g.Nodes[0])
		}
	}
	plans, err := search.InFormats(ctx, c, nodes, o.Formats)
	if err != nil {
		return nil, err
	}
	for _, p := range plans {
		f := measure.InFormat{Format: p.Format}
		tuned, _ := c.Planned.TunedGraph(p.Out.Set)
		if f.Simulator, err = c.Planned.SimulatorOf(tuned, p.Out.Set, nil); err != nil {
			return nil, err
		}
		for _, id := range p.Nodes {
			f.Nodes = append(f.Nodes, c.Planned.Graph.Node(id).Name)
		}
		list = append(list, f)
	}
	return list, nil
}

// advice fills in the advice of a report, whose layers have Weight and Activation. Cures are tried in the simulation, on the samples that
// the statistics keep; of a plan without statistics on the first ones of the data. What does not help is not advised.
func advice(ctx context.Context, j *open.Job, p *planning.Planned, set *data.Set, r *analysis.Report, o measure.AnalyzeOptions) error {
	r.Advice = []analysis.Advice{}
	if p.Plan.Options != nil || !p.Applied() || len(p.Stale) > 0 {
		j.Detail("no advice: the plan is of version 1, or what was tuned does not fit it")
		return nil
	}
	if err := exec.FitHistograms(ctx, p.Graph); err != nil {
		j.Note("no advice: %v", err)
		return nil
	}
	a := &Adviser{Change: &planning.Change{Job: j, Planned: p}, o: o, Cures: map[string]*advise.Cure{}, Predicted: map[string]float64{}}
	if err := a.Open(ctx, o.Threads); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		j.Note("no advice: %v", err)
		return nil
	}
	if structure, _ := planning.Difference(p.Graph, p.Set, a.Was.Set); structure != "" {
		j.Detail("no advice: this version of qwb derives another plan")
		return nil
	}
	if err := a.ready(ctx, set, r); errors.As(err, new(*exec.MemoryError)) {
		j.Note("no advice: %v", err)
		return nil
	} else if err != nil {
		return err
	}
	found := advise.Find(a.Facts)
	tick, finish := j.Progress("advice", len(found))
	defer finish()
	for i := range found {
		if err := a.add(ctx, r, &found[i]); err != nil {
			return err
		}
		tick(i + 1)
	}
	r.Advice = specific(r.Advice)
	// What is about the data stands behind what is about the error of the outputs: nobody can say what it is worth.
	arrange.Stable(r.Advice, func(x, y analysis.Advice) int { return cmp.Compare(predictedOf(&x), predictedOf(&y)) })
	finish()
	if o.Try {
		return a.Try(ctx, set, r)
	}
	return nil
}

// specific leaves out that the bits are too few where a cause that says more leads about as far.
func specific(list []analysis.Advice) []analysis.Advice {
	return slices.DeleteFunc(list, func(x analysis.Advice) bool {
		return x.Cause == advise.CoarseGrid.Name && slices.ContainsFunc(list, func(y analysis.Advice) bool {
			return y.Cause != x.Cause && y.Predicted != nil && *y.Predicted <= 2**x.Predicted
		})
	})
}

func predictedOf(a *analysis.Advice) float64 {
	if a.Predicted == nil {
		return math.Inf(1)
	}
	return *a.Predicted
}

// ready gathers the facts.
func (a *Adviser) ready(ctx context.Context, set *data.Set, r *analysis.Report) error {
	var err error
	a.Derivation.Parts = a.o.Parts
	if a.kept, err = a.Derivation.KeptRuns(ctx, a.o.Threads); errors.Is(err, planning.ErrNoKept) {
		a.kept, err = a.Derivation.RunsOf(ctx, set.Iterator(), calib.MaxKept, a.o.Threads)
	}
	if err != nil {
		return err
	}
	if a.before, err = a.losses(ctx, a.Was); err != nil {
		return err
	}
	stats := a.Derivation.Stats
	f := &advise.Facts{Graph: a.Was.Graph, Set: a.Was.Set, Target: a.Planned.Target, Layers: r.Layerwise, Floor: measure.Floor(r).Mean,
		Shifts: map[graph.NodeID]float64{}}
	a.Facts = f
	f.Value = func(v graph.ValueID) *observers.State {
		if stats == nil {
			return nil
		}
		if t := stats.Tensor(f.Graph.Value(v).Name); t != nil {
			return t.State
		}
		return nil
	}
	f.State = func(root tqc.SlotID) *observers.State {
		if stats == nil {
			return nil
		}
		st, err := calib.Observed(f.Graph, f.Set, stats, root)
		if err != nil {
			return nil // of a tensor that was never seen
		}
		return st
	}
	f.Ranges = func(root tqc.SlotID) (out []advise.Range) {
		list, err := calib.Candidates(f.Graph, f.Set, stats, root)
		if err != nil {
			return nil
		}
		for _, c := range list {
			out = append(out, advise.Range{Observer: c.Method, Params: c.Params})
		}
		return out
	}
	if stats == nil {
		return nil
	}
	drifts, enough := stats.Drifts(calib.DefaultDrift)
	f.Samples, f.Tensors, f.Unsettled, f.Halves = stats.Samples(), len(stats.Names()), len(drifts), enough
	if err := a.shifted(f, stats); err != nil {
		return err
	}
	for i := range r.Layerwise {
		l := &r.Layerwise[i]
		if id, ok := f.Graph.LookupNode(l.Node); ok {
			if x, known := f.Shifts[id]; known {
				l.MeanShift = &x
			}
		}
	}
	return a.saturated(ctx)
}

// losses simulates what was derived on the kept samples.
func (a *Adviser) losses(ctx context.Context, out *planning.Derived) (analysis.Losses, error) {
	q, err := a.Derivation.Simulator(out, &a.kept.Shared)
	if err != nil {
		return nil, err
	}
	return a.kept.Evaluator.Losses(ctx, q)
}

// shifted finds how much the means of channels move, but for what tuned biases take back.
func (a *Adviser) shifted(f *advise.Facts, stats *calib.Stats) (err error) {
	if !stats.HasSums() {
		return nil
	}
	reference := cmp.Or(a.Derivation.Reference, a.Derivation.Graph)
	g := reference
	if a.Derivation.Overlay != nil {
		g, _ = a.Derivation.Overlay.Apply(reference, f.Set)
	}
	if a.shifts, err = tune.Shifts(reference, g, f.Set, stats.Sums); err != nil {
		return err
	}
	order, err := g.Order()
	if err != nil {
		return err
	}
	for id, d := range a.shifts {
		n := g.Node(id)
		if now, was := g.Const(n.Input(graph.BiasInput)), reference.Const(n.Input(graph.BiasInput)); now != nil && was != nil && now != was &&
			now.Len() == len(d) && was.Len() == len(d) {
			for c := range d {
				d[c] -= float64(now.F32()[c]) - float64(was.F32()[c])
			}
		}
		together := f.Set.Together(id, order)
		st := f.Value(g.Node(together[len(together)-1]).Outputs[0])
		if st == nil || !st.HasBins() {
			continue
		}
		var squares float64
		for _, x := range d {
			squares += x * x / float64(len(d))
		}
		if power := advise.Power(st); power > 0 {
			f.Shifts[id] = squares / power
		}
	}
	return nil
}

// saturated runs the integers, where the profile may saturate, and says how many times the simulation's error theirs is.
func (a *Adviser) saturated(ctx context.Context) error {
	profile, err := a.Planned.ProfileNamed("")
	if err != nil || !profile.Saturates {
		return err
	}
	losses, err := a.integers(ctx, a.Was)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.Detail("advice: the integers were not run: %v", err)
		return nil
	}
	if e := a.before.Estimate().Mean; e > 0 && analysis.Paired(losses.PerSample(), a.before.PerSample()).Below(2) {
		a.Facts.Integers = losses.Estimate().Mean / e
		a.before, a.simulated = losses, a.before // the integers count from here on
		a.Facts.Floor *= a.Facts.Integers
	}
	return nil
}

// integers runs the integer program of what was derived on the kept samples.
func (a *Adviser) integers(ctx context.Context, out *planning.Derived) (analysis.Losses, error) {
	g := out.Graph
	if a.Derivation.Overlay != nil {
		g, _ = a.Derivation.Overlay.Apply(cmp.Or(a.Derivation.Reference, a.Derivation.Graph), out.Set)
	}
	return a.integerLosses(ctx, a.kept.Evaluator, g, out.Set)
}

// integerLosses runs the integer program of a graph that is quantized.
func (a *Adviser) integerLosses(ctx context.Context, ev *analysis.Evaluator, g *graph.Graph, set *tqc.Set) (analysis.Losses, error) {
	profile, err := a.Planned.ProfileNamed("")
	if err != nil {
		return nil, err
	}
	run, err := worktune.Integers(a.Planned, profile, a.o.Threads)
	if err != nil {
		return nil, err
	}
	return ev.LossesOf(ctx, g, func(g *graph.Graph) (analysis.Forward, error) { return run(g, set) })
}

// after is what a cure leaves on the kept samples; nil where it cannot be told, or done.
func (a *Adviser) after(ctx context.Context, c *advise.Cure) (analysis.Losses, error) {
	switch {
	case c.Method != "":
		q, err := a.Derivation.Simulator(a.Was, &a.kept.Shared)
		if err != nil {
			return nil, err
		}
		w := analysis.WhatIf{Without: c.Without}
		if c.Shift {
			w.Shift = a.shifts
		}
		losses, err := a.kept.Evaluator.WhatIf(ctx, q, w)
		if err != nil || a.simulated == nil {
			return losses, err
		}
		for i := range losses { // what the integers lose beside it stays
			for k := range losses[i] {
				losses[i][k] = max(0, losses[i][k]+a.before[i][k]-a.simulated[i][k])
			}
		}
		return losses, nil
	case len(c.Words) > 0:
		out, err := a.decided(ctx, c)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			a.Detail("advice: %s: %v", a.command(c), err)
			return nil, nil // the target cannot, or nothing changes
		}
		if left, was := a.onIntegers(out), a.onIntegers(a.Was); was > 0 && left < leastIntegers*was {
			a.Detail("advice: %s: leaves %.0f %% of the multiply-accumulates on integers", a.command(c), 100*left/was)
			return nil, nil
		}
		if a.Facts.Integers > 0 {
			return a.integers(ctx, out)
		}
		return a.losses(ctx, out)
	}
	return nil, nil
}

// leastIntegers is the part of the work on integers that a cure has to leave there: float everywhere is no cure.
const leastIntegers = 0.5

// onIntegers is how many multiply-accumulates run on integers, open dimensions counting as 1.
func (a *Adviser) onIntegers(out *planning.Derived) float64 {
	var macs int64
	for _, id := range out.Graph.Nodes() {
		if n, _ := out.Graph.MACsAtLeast(id); out.Set.Domains[id] == tqc.DomainInt {
			macs += n
		}
	}
	return float64(macs)
}

// least is the part by which advice has to lower the error.
const least = 0.1

// add tries the cures of a finding and adds it to the report if one helps. Of cures that help about as much the cheapest is advised.
func (a *Adviser) add(ctx context.Context, r *analysis.Report, f *advise.Finding) error {
	out := analysis.Advice{Cause: f.Cause.Name, Nodes: f.Nodes, Evidence: f.Evidence}
	if len(f.Nodes) > 0 {
		out.Node = f.Nodes[0]
	}
	if f.Cause.Data {
		for i := range f.Cures {
			if out.Command = a.command(&f.Cures[i]); out.Command != "" {
				if !f.Cures[i].Look { // which changes nothing
					a.Cures[out.Command] = &f.Cures[i]
				}
				break
			}
		}
		r.Advice = append(r.Advice, out)
		return nil
	}
	type outcome struct {
		cure *advise.Cure
		left float64 // of the error
	}
	var helps []outcome
	best := 1.0
	for i := range f.Cures {
		c := &f.Cures[i]
		losses, err := a.after(ctx, c)
		if err != nil {
			return err
		}
		if losses == nil {
			continue
		}
		left, sure := lowered(a.before.PerSample(), losses.PerSample())
		if c.Share > 0 {
			left = 1 - c.Share*(1-left)
		}
		if sure && left <= 1-least {
			helps, best = append(helps, outcome{c, left}), min(best, left)
		}
	}
	if len(helps) == 0 {
		return nil
	}
	chosen := slices.IndexFunc(helps, func(h outcome) bool { return 1-h.left >= 0.8*(1-best) })
	predicted := helps[chosen].left * a.Facts.Floor
	out.Command, out.Predicted, out.Before = a.command(helps[chosen].cure), &predicted, &a.Facts.Floor
	for i, h := range helps {
		c := a.command(h.cure)
		switch {
		case i == chosen:
		case c == out.Command || slices.Contains(out.Others, c):
			continue
		default:
			out.Others = append(out.Others, c)
		}
		a.Cures[c], a.Predicted[c] = h.cure, h.left*a.Facts.Floor
	}
	r.Advice = append(r.Advice, out)
	return nil
}

// lowered is what is left of the mean loss, and whether most samples say so: the mean of log(after/before) lies below zero by two errors.
func lowered(before, after []float64) (left float64, sure bool) {
	logs := make([]float64, len(before))
	var x, y float64
	const tiny = 1e-12
	for i := range before {
		x, y = x+before[i], y+after[i]
		logs[i] = math.Log((after[i] + tiny) / (before[i] + tiny))
	}
	if !(x > 0) {
		return 1, false
	}
	e := analysis.NewEstimate(logs)
	return y / x, e.N == 1 && e.Mean < 0 || e.Below(2)
}

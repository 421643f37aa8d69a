package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/kernels/elementary"
)

// FlipsOptions are the arguments of Flips.
type FlipsOptions struct {
	Data    open.DataOptions // without paths the plan's own
	Profile string           // of the integers; empty: the platform's
	All     bool             // list every sample, not only those whose class changed
	Threads int
}

// predict reads a row of class scores. What are no shares already become some by softmax.
func predict(outputs []*tensor.Tensor) (analysis.Prediction, error) {
	if class, ok := task.Class(outputs); ok {
		return analysis.Prediction{Class: class, P: 1, Top5: []analysis.ClassOf{{Class: class, P: 1}}}, nil
	}
	for _, t := range outputs {
		if t = exec.Floats(t); t == nil || t.Len() < 2 {
			continue
		}
		x := t.ToRowMajor().F32()
		list := make([]analysis.ClassOf, len(x))
		sum, most, shares := 0.0, math.Inf(-1), true
		for i, v := range x {
			list[i] = analysis.ClassOf{Class: i, P: float64(v)}
			sum, most, shares = sum+float64(v), max(most, float64(v)), shares && v >= 0
		}
		if !shares || math.Abs(sum-1) > 1e-2 {
			sum = 0
			for i := range list {
				list[i].P = elementary.Exp(list[i].P - most)
				sum += list[i].P
			}
			for i := range list {
				list[i].P /= sum
			}
		}
		arrange.Stable(list, func(a, b analysis.ClassOf) int { return cmp.Compare(b.P, a.P) })
		list = list[:min(5, len(list))]
		return analysis.Prediction{Class: list[0].Class, P: list[0].P, Top5: slices.Clone(list)}, nil
	}
	return analysis.Prediction{}, errors.New("no output has a row of class scores")
}

// Flips runs every sample in float, in simulation and, where there are any, on integers, and says which change their class.
func Flips(ctx context.Context, j *open.Job, o FlipsOptions) (*analysis.FlipsResult, error) {
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	if open.Scores(p.Reference) == 0 && !open.ScoresClasses(p.Reference, 0) {
		p.Close()
		return nil, fault.Usagef("%s gives no row of class scores for a sample: there are no classes that could change", p.Path)
	}
	x, err := newTrio(ctx, j, p, AnswersOptions{o.Data, o.Profile, o.Threads})
	if err != nil {
		return nil, err
	}
	defer x.close()
	parts := analysis.SampleParts{Judge: x.judge}
	r := &analysis.FlipsResult{Samples: x.set.Len(), Labelled: x.set.Labelled(), Profile: x.profile, Flips: []analysis.Flip{},
		Changes: []analysis.Confused{}}
	if r.Profile != "" {
		r.Int8Flips, r.Apart = new(int), new(int)
	}
	if r.Labelled > 0 {
		r.FloatTop1, r.SimTop1 = new(int), new(int)
		if r.Profile != "" {
			r.Int8Top1 = new(int)
		}
	}
	changes := map[[2]int]int{}
	tick, finish := j.Progress("flips", x.set.Len())
	defer finish()
	for i := range x.set.Len() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := x.set.Sample(i)
		if err != nil {
			return nil, err
		}
		f := analysis.Flip{Index: i, Sample: s.Name}
		if s.Label >= 0 {
			f.Label = &s.Label
		}
		if err := x.flip(ctx, s, &f, &parts); err != nil {
			return nil, fmt.Errorf("%w (sample %s)", err, s.Name)
		}
		addFlip(r, &f, changes, o.All)
		tick(i + 1)
	}
	losses := parts.Losses()
	for i := range r.Flips {
		f := &r.Flips[i]
		f.NSR, f.Part = losses[f.Index].NSR, losses[f.Index].Part
	}
	for pair, n := range changes {
		r.Changes = append(r.Changes, analysis.Confused{From: pair[0], To: pair[1], Count: n})
	}
	arrange.Stable(r.Changes, func(a, b analysis.Confused) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return r, nil
}

// flip is what the three runs predict for a sample.
func (x *trio) flip(ctx context.Context, s *exec.Sample, f *analysis.Flip, parts *analysis.SampleParts) error {
	outs, float, sim, err := x.run(ctx, s)
	if err == nil {
		err = parts.Add(sim, float)
	}
	if err == nil {
		f.Float, err = predict(outs[inFloat])
	}
	if err == nil {
		f.Sim, err = predict(outs[inSim])
	}
	if err == nil && outs[inInt8] != nil {
		f.Int8 = new(analysis.Prediction)
		*f.Int8, err = predict(outs[inInt8])
	}
	return err
}

// addFlip counts a sample, and lists it where its class changed or all are wanted.
func addFlip(r *analysis.FlipsResult, f *analysis.Flip, changes map[[2]int]int, all bool) {
	count := func(n *int, yes bool) {
		if n != nil && yes {
			*n++
		}
	}
	right := func(p *analysis.Prediction) bool { return f.Label != nil && p.Class == *f.Label }
	last := &f.Sim
	count(r.FloatTop1, right(&f.Float))
	count(r.SimTop1, right(&f.Sim))
	count(&r.SimFlips, f.Sim.Class != f.Float.Class)
	if f.Int8 != nil {
		last = f.Int8
		count(r.Int8Top1, right(last))
		count(r.Int8Flips, last.Class != f.Float.Class)
		count(r.Apart, last.Class != f.Sim.Class)
	}
	if last.Class != f.Float.Class {
		changes[[2]int{f.Float.Class, last.Class}]++
	}
	if all || last.Class != f.Float.Class || f.Sim.Class != f.Float.Class {
		r.Flips = append(r.Flips, *f)
	}
}

// SampleLayers is an analysis of one sample.
func SampleLayers(ctx context.Context, j *open.Job, o open.DataOptions, name string) (*analysis.Report, error) {
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	set, _, err := j.OpenData(p.Graph, p.Data(o))
	if err != nil {
		return nil, err
	}
	s, err := sampleNamed(set, name)
	if err != nil {
		return nil, err
	}
	q, err := p.Simulator()
	if err != nil {
		return nil, err
	}
	tick, finish := j.Progress("analyze one sample", 1)
	defer finish()
	return analysis.Analyze(ctx, p.Reference, q, &exec.InMemory{Samples: []*exec.Sample{s}}, analysis.Config{Graphwise: true, Layerwise: true,
		Split: true, Outputs: true,
		Threads: 1, Memory: o.Memory, Progress: tick})
}

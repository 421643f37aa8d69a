package calib

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// activation is one scale to be found: a root slot and the tensors that are quantized with its scale.
type activation struct {
	slot   *tqc.Slot
	values []graph.ValueID // the root's first
	asked  tqc.Observer
	// tried holds every method that gave a range, in the order of observers.All; one unless the choice is automatic.
	tried  []trial
	chosen int
	errors []float64 // by trial, where the choice is automatic
}

// trial is what one method comes to.
type trial struct {
	method   tqc.Observer
	ranges   []observers.Range // per channel, or one
	params   tqc.Params
	warnings []tqc.Warning
}

// activation collects the tensors that share the scale of root: its own, and those of the slots that borrow from it. Left
// out are slots that are overlapped (what they hold, a convolution's sum before its ReLU for instance, is never quantized) and
// the outputs of operators that only move elements of a tensor that is in the group already.
func (r *renderer) activation(root *tqc.Slot) *activation {
	a := &activation{slot: root, values: []graph.ValueID{root.Value}, asked: root.Config.Observer}
	if r.cfg.Observer != tqc.ObserverNone {
		a.asked = r.cfg.Observer
	}
	if a.asked == tqc.ObserverNone {
		a.asked = tqc.ObserverMinMax
	}
	for _, id := range r.set.Group(root.ID) {
		sl := r.set.Slot(id)
		if sl.State() != tqc.PassiveInit && sl.State() != tqc.Passive {
			continue
		}
		if in := r.set.Input(sl.Node, 0); sl.Kind == tqc.Output && in != tqc.NoSlot && r.set.Root(in) == root.ID {
			continue
		}
		if !slices.Contains(a.values, sl.Value) {
			a.values = append(a.values, sl.Value)
		}
	}
	return a
}

// tinyScale is a scale below which engines lose it: a product of two such is next to the smallest float32.
const tinyScale = 1e-12

// activations finds the scales of all activations and renders them.
func (r *renderer) activations(ctx context.Context, list []*activation) error {
	tick := func() {}
	if report := r.cfg.Progress; report != nil {
		var mu sync.Mutex
		done := 0
		tick = func() {
			mu.Lock()
			defer mu.Unlock()
			done++
			report(done, len(list))
		}
	}
	err := parallel(ctx, len(list), r.cfg.Threads, func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.ranges(list[i]); err != nil {
			return r.at(list[i].slot, err)
		}
		tick()
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.choose(ctx, list); err != nil {
		return err
	}
	for _, a := range list {
		t := a.tried[a.chosen]
		_, outcomes, err := scales(t.ranges, a.slot.Config, 0)
		if err != nil {
			return r.at(a.slot, err)
		}
		for _, w := range t.warnings {
			r.warn(a.slot, 0, "%s: %s", t.method, w.Text)
		}
		r.mended(a.slot, outcomes, len(t.ranges))
		if s := slices.Min(t.params.Scale); s < tinyScale && s > 0 && len(outcomes) == 0 {
			r.warn(a.slot, float64(s), "its scale is %.2g: the tensor is next to 0 in all samples; "+
				"engines that compute such scales in half floats or as products of scales make 0 of them", s)
		}
		if err := r.set.Render(a.slot.ID, t.params); err != nil {
			return r.at(a.slot, err)
		}
		r.out.Choices = append(r.out.Choices, a.choice(r.g))
	}
	arrange.Stable(r.out.Choices, func(x, y Choice) int { return int(x.Slot - y.Slot) })
	return nil
}

func (a *activation) choice(g *graph.Graph) Choice {
	t := a.tried[a.chosen]
	c := Choice{Slot: a.slot.ID, Tensor: g.Value(a.slot.Value).Name, Asked: a.asked, Observer: t.method, Range: t.ranges[0]}
	for _, r := range t.ranges {
		c.Range = covering(c.Range, r)
	}
	for i, e := range a.errors {
		c.Errors = append(c.Errors, MethodError{a.tried[i].method, e})
	}
	return c
}

// ranges finds the range by the method asked for, or by each where the choice is automatic.
func (r *renderer) ranges(a *activation) error {
	_, parameter, _ := a.asked.Split() // 0 where there is none
	key := a.memoKey(parameter)
	if a.tried = r.cfg.Memo.find(key); a.tried != nil {
		return nil
	}
	state, err := r.state(a.values)
	if err != nil {
		return err
	}
	if a.asked == tqc.ObserverAuto && !state.HasBins() {
		return observers.ErrNoBins
	}
	methods := observers.All
	if a.asked != tqc.ObserverAuto {
		m, err := r.method(a.asked)
		if err != nil {
			return err
		}
		methods = []*observers.Method{m}
	}
	masked := r.masks.about(a.values) && !a.slot.Config.Policy.Has(tqc.PerChannel)
	for _, m := range methods {
		var t trial
		if masked {
			t, err = r.masks.try(a.values, m, a.slot.Config, parameter)
		} else {
			t, err = r.try(a, state, m, parameter)
		}
		if a.asked != tqc.ObserverAuto {
			t.method = a.asked
		}
		switch {
		case err == nil:
			a.tried = append(a.tried, t)
		case a.asked != tqc.ObserverAuto || m == observers.MinMax: // minmax fails only where nothing can work
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	r.cfg.Memo.keep(key, a.tried)
	return nil
}

// method finds the method that an observer names.
func (r *renderer) method(o tqc.Observer) (*observers.Method, error) {
	m := observers.Find(o, r.cfg.Own...)
	if name, _, _ := o.Split(); m == nil && name.Own() {
		return nil, fmt.Errorf("observer %q belongs to a program that brings it along, which this one is not", o)
	} else if m == nil {
		return nil, fmt.Errorf("no observer is called %q", o)
	}
	return m, nil
}

// try applies one method to an activation.
func (r *renderer) try(a *activation, st *observers.State, m *observers.Method, parameter float64) (trial, error) {
	if m == observers.Robust && slices.ContainsFunc(a.values, r.probabilities) {
		t, err := try(st, observers.MSE, a.slot.Config, 0)
		t.method = m.Name
		return t, err
	}
	t, err := try(st, m, a.slot.Config, parameter)
	if err != nil || m != observers.Robust || len(t.ranges) != 1 {
		return t, err
	}
	if err = r.upwards(a.values, &t.ranges[0]); err == nil {
		t.params, _, err = scales(t.ranges, a.slot.Config, 0)
	}
	return t, err
}

// try applies one method.
func try(st *observers.State, m *observers.Method, c tqc.Config, parameter float64) (trial, error) {
	t := trial{method: m.Name}
	if c.RunTime() {
		c.Policy = c.Policy&^tqc.PerGroup | tqc.PerTensor // what is found is one scale of the tensor
	}
	one, warnings, err := m.Range(st, c, parameter)
	if err != nil {
		return t, err
	}
	t.warnings = warnings
	t.ranges = []observers.Range{one}
	switch {
	case c.Policy.Has(tqc.PerChannel):
		if c.Axis != 1 || st.Channels() == nil {
			return t, fmt.Errorf("ranges are kept per tensor and along axis 1, not along axis %d", c.Axis)
		}
		t.ranges = t.ranges[:0]
		for _, x := range st.Channels() {
			if x.Empty() {
				x = observers.Extent{}
			}
			t.ranges = append(t.ranges, observers.Range{Lo: float64(x.Min), Hi: float64(x.Max)})
		}
	case c.Policy.Has(tqc.PerGroup):
		return t, fmt.Errorf("per-group scales are for parameters, or computed at run time")
	}
	t.params, _, err = scales(t.ranges, c, 0)
	return t, err
}

// state merges the statistics of all values; constants among them are observed.
func (r *renderer) state(values []graph.ValueID) (*observers.State, error) {
	if len(values) == 1 {
		return r.seen(values[0])
	}
	all := observers.New()
	mean, known := observers.SampleMean{Lo: math.Inf(1), Hi: math.Inf(-1)}, true
	for _, v := range values {
		st, err := r.seen(v)
		if err != nil {
			return nil, err
		}
		all.Merge(st)
		x, ok := st.SampleMean()
		mean, known = mean.Union(x), known && ok
	}
	if all.SetSamples(nil); known {
		all.SetSampleMean(mean)
	}
	return all, nil
}

func (r *renderer) seen(v graph.ValueID) (*observers.State, error) {
	if t := r.g.Const(v); t != nil {
		st := observers.New()
		x, err := st.Observe(t, channelAxis(len(t.Shape)))
		st.SetSampleMean(observers.MeanOf(x))
		return st, err
	}
	name := r.g.Value(v).Name
	t := r.stats.Tensor(name)
	if t == nil {
		return nil, fmt.Errorf("the statistics have nothing on %q: they are of another graph, or no sample reached it", name)
	}
	return t.State, nil
}

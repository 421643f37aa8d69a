package tune

import (
	"context"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/passes"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Chosen is a scale of an activation that tuning chose, by what a method makes of the statistics; without a method it was learnt.
// The slot is the root of those that share it.
type Chosen struct {
	Slot   tqc.SlotID   `json:"slot"`
	Method tqc.Observer `json:"method"`
	Params tqc.Params   `json:"params"`
}

// site is an activation whose scale may be chosen.
type site struct {
	root      tqc.SlotID
	name      string
	computed  []graph.ValueID // values with the scale that nodes compute
	consumers []consumer
	trials    []siteTrial
}

// consumer is an operator that reads a site, with the activations that are computed with it.
type consumer struct {
	nodes  []graph.NodeID // the operator first; the last computes what the others read
	output graph.ValueID
}

type siteTrial struct {
	method tqc.Observer
	params tqc.Params
	sim    *sim.Simulator // nil: it is made when it is run
}

// activations chooses scales of activations anew. At each, what every method makes of the statistics is tried on the held-out samples: the
// squared errors at the outputs of the operators that read it, as shares of their squared outputs, everything in front of them quantized
// and tuned, the other scales as they are. The best is kept where the errors fall by more than the error bar of all trials together. It is
// for the end, when weights and biases are settled.
func (b *Bench) activations(ctx context.Context) (*Report, error) {
	report := &Report{Layers: []Layer{}}
	if b.Ranges == nil || b.Work.over() {
		return report, nil
	}
	if b.shared == nil {
		b.shared = new(sim.Constants)
	}
	sites, trials, err := b.sites()
	if err != nil || trials == 0 {
		return report, err
	}
	if err := b.simulators(sites, trials); err != nil {
		return nil, err
	}
	errors, err := b.trySites(ctx, sites)
	if err != nil {
		return nil, err
	}
	set := b.Set.Clone()
	chosen := slices.Clone(b.Chosen)
	for i, s := range sites {
		l := Layer{Node: s.name, Tried: []Step{}}
		step, best := b.judgeSite(s, errors, i, analysis.Trials(trials))
		if l.Tried = append(l.Tried, step); step.Kept {
			t := s.trials[best]
			if err := set.Render(s.root, t.params); err != nil {
				return nil, err
			}
			chosen = slices.DeleteFunc(chosen, func(c Chosen) bool { return c.Slot == s.root })
			chosen = append(chosen, Chosen{s.root, t.method, t.params})
		}
		l.Kept, l.Why, l.Change, l.ChangeError = step.Kept, step.Why, step.Change, step.ChangeError
		report.Layers = append(report.Layers, l)
	}
	if _, err := passes.SolveBias(b.Graph, set); err != nil {
		return nil, err
	}
	b.Set, b.Chosen = set, chosen
	return report, nil
}

// sites lists the activations with more than one choice, in graph order, and how many trials they make.
func (b *Bench) sites() (list []*site, trials int, err error) {
	order, err := b.Graph.Order()
	if err != nil {
		return nil, 0, err
	}
	seen := map[tqc.SlotID]bool{}
	for _, id := range order {
		for _, s := range append(slices.Clone(b.Set.Inputs(id)), b.Set.Outputs(id)...) {
			if s == tqc.NoSlot {
				continue
			}
			root := b.Set.Root(s)
			sl := b.Set.Slot(root)
			if seen[root] || sl.Weight || b.Graph.Const(sl.Value) != nil || !sl.State().Quantizes() || !b.Set.Params(root).Ready() {
				continue
			}
			seen[root] = true
			p, err := b.site(root, order)
			if err != nil {
				return nil, 0, err
			}
			if len(p.consumers) > 0 && len(p.trials) > 0 {
				list, trials = append(list, p), trials+len(p.trials)
			}
		}
	}
	return list, trials, nil
}

// site finds who computes and reads a scale, and what else it might be.
func (b *Bench) site(root tqc.SlotID, order []graph.NodeID) (*site, error) {
	sl := b.Set.Slot(root)
	s := &site{root: root, name: b.Graph.Value(sl.Value).Name}
	shares := func(list []tqc.SlotID) bool {
		return slices.ContainsFunc(list, func(o tqc.SlotID) bool { return o != tqc.NoSlot && b.Set.Root(o) == root })
	}
	heads := map[graph.NodeID]bool{}
	for _, id := range b.Set.Group(root) {
		m := b.Set.Slot(id)
		if m.Kind == tqc.Output {
			if b.Graph.Producer(m.Value) == m.Node && !slices.Contains(s.computed, m.Value) {
				s.computed = append(s.computed, m.Value)
			}
			continue
		}
		if heads[m.Node] || shares(b.Set.Outputs(m.Node)) || m.State() == tqc.FP32 { // what only moves it has no error of its own
			continue
		}
		heads[m.Node] = true
		nodes := b.Set.Together(m.Node, order)
		last := nodes[len(nodes)-1]
		if n := b.Graph.Node(last); len(n.Outputs) == 1 {
			s.consumers = append(s.consumers, consumer{nodes, n.Outputs[0]})
		}
	}
	if len(s.consumers) == 0 {
		return s, nil
	}
	candidates, err := b.Ranges(b.Graph, b.Set, root)
	if err != nil {
		return nil, err
	}
	now := b.Set.Params(root)
	for _, c := range candidates {
		if slices.Equal(c.Params.Scale, now.Scale) && slices.Equal(c.Params.ZeroPoint, now.ZeroPoint) {
			continue
		}
		s.trials = append(s.trials, siteTrial{method: c.Method, params: c.Params})
	}
	return s, nil
}

// slotBytes is about how many bytes a slot takes in a set and its simulator.
const slotBytes = 400

// simulators makes the simulators of all trials where they take little of the memory, which grows with the square of the operators. Else
// each is made when it is run.
func (b *Bench) simulators(sites []*site, trials int) error {
	if int64(trials)*int64(b.Set.NumSlots())*slotBytes > b.memory()/8 {
		return nil
	}
	for _, s := range sites {
		for i := range s.trials {
			q, err := b.simulator(s, i)
			if err != nil {
				return err
			}
			s.trials[i].sim = q
		}
	}
	return nil
}

// atOnce is the largest number of samples that are tried at a site before the next is gone to, where simulators are made when they are run.
const atOnce = 8

// simulator is that of a trial of a site.
func (b *Bench) simulator(s *site, trial int) (*sim.Simulator, error) {
	t := &s.trials[trial]
	if t.sim != nil {
		return t.sim, nil
	}
	set := b.Set.Clone()
	if err := set.Render(s.root, t.params); err != nil {
		return nil, err
	}
	if _, err := passes.SolveBias(b.Graph, set); err != nil {
		return nil, err
	}
	return b.Simulate(b.Graph, set, b.shared)
}

// trySites returns the errors by held-out sample, site and trial, as it is now being trial 0.
func (b *Bench) trySites(ctx context.Context, sites []*site) ([][][]float64, error) {
	w, err := b.walk(nil, nil)
	if err != nil {
		return nil, err
	}
	q, err := b.Simulate(b.Graph, b.Set, b.shared)
	if err != nil {
		return nil, err
	}
	read := map[graph.ValueID]bool{}
	work := 2.0
	for _, s := range sites {
		for _, c := range s.consumers {
			read[c.output] = true
			each := b.share(c.nodes[0])
			for _, v := range s.computed {
				each += b.share(b.Graph.Producer(v))
			}
			work += each * float64(len(s.trials)+1)
		}
	}
	out, size := make([][][]float64, len(w.states)), 1
	if threads := max(b.Threads, 1); sites[0].trials[0].sim == nil {
		size = max(1, min(atOnce, len(out)/threads))
	}
	err = each(ctx, w.session, w.Threads, (len(out)+size-1)/size, func(r *exec.Runner, i int) error {
		t := &tries{walk: w, r: r, now: q, view: sim.View{Islands: true, Scratch: &sim.Scratch{}}}
		list := w.states[i*size : min((i+1)*size, len(out))]
		for k, st := range list {
			if err := t.run(ctx, st, read); err != nil {
				return fmt.Errorf("sample %s: %w", st.sample.Name, err)
			}
			if k+1 < len(list) && t.bytes < b.memory()/4/int64(max(b.Threads, 1)) {
				continue
			}
			for _, s := range sites {
				errs, err := t.site(ctx, s)
				if err != nil {
					return err
				}
				for j, e := range errs {
					at := i*size + k + 1 - len(errs) + j
					out[at] = append(out[at], e)
				}
			}
			t.forget()
		}
		return nil
	})
	b.forwards(work * float64(len(w.states)))
	return out, err
}

// tries are samples that are run together, in both lanes, and tried at one site after the other.
type tries struct {
	*walk
	r      *exec.Runner
	now    *sim.Simulator
	view   sim.View
	states []*state
	floats [][]*tensor.Tensor // by sample and value: of those that consumers compute
	kept   [][]*tensor.Tensor // by sample and value: quantized
	bytes  int64              // of them
}

// forget makes room for other samples.
func (t *tries) forget() { t.states, t.floats, t.kept, t.bytes = nil, nil, nil, 0 }

// run runs one more sample.
func (t *tries) run(ctx context.Context, st *state, read map[graph.ValueID]bool) error {
	float, err := t.r.RunAll(ctx, st.sample.Feeds, nil, func(v graph.ValueID) bool { return read[v] })
	if err != nil {
		return err
	}
	kept, err := t.r.RunAll(ctx, st.sample.Feeds, t.now.NewHooks(sim.View{Islands: true}), nil)
	t.states, t.floats, t.kept = append(t.states, st), append(t.floats, float), append(t.kept, kept)
	for _, list := range [][]*tensor.Tensor{float, kept} {
		for _, x := range list {
			t.bytes += size(x)
		}
	}
	return err
}

// site returns the errors by sample and trial.
func (t *tries) site(ctx context.Context, s *site) ([][]float64, error) {
	hooks := []*exec.Hooks{t.now.NewHooks(t.view)}
	for k := range s.trials {
		q, err := t.simulator(s, k)
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, q.NewHooks(t.view))
	}
	all := make([][]float64, len(t.states))
	for i, st := range t.states {
		errs, values := make([]float64, len(hooks)), slices.Clone(t.kept[i])
		for _, v := range s.computed {
			values[v] = nil
		}
		for _, c := range s.consumers {
			values := slices.Clone(values)
			for _, id := range c.nodes { // what comes out as before would end the run
				for _, v := range t.Reference.Node(id).Outputs {
					values[v] = nil
				}
			}
			for k := range errs {
				e, err := t.consume(ctx, t.r, st, values, c, hooks[k], t.floats[i][c.output])
				if err != nil {
					return nil, fmt.Errorf("sample %s: %w", st.sample.Name, err)
				}
				errs[k] += e
			}
		}
		all[i] = errs
	}
	return all, nil
}

// consume runs a consumer, and what it needs that is not kept, and returns the NSR of what it computes before that is quantized.
func (w *walk) consume(ctx context.Context, r *exec.Runner, s *state, kept []*tensor.Tensor, c consumer, h *exec.Hooks,
	float *tensor.Tensor) (nsr float64, err error) {
	input, output, wants := h.Input, h.Output, h.Wants
	all := *h
	all.Wants = everything
	all.Input = func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
		if !wants(n.Inputs[i]) {
			return t, nil
		}
		return input(n, i, t)
	}
	found, last := false, c.nodes[len(c.nodes)-1]
	all.Output = func(n *graph.Node, i int, t *tensor.Tensor) error {
		if n.ID == last && w.own(n) {
			if found = true; float != nil && t.DType == tensor.Float32 && len(t.Shape) > 0 { // indices have no error that could be measured
				m, err := s.moment(n.Outputs[i], t, float, 0)
				if err != nil {
					return err
				}
				nsr = m.nsr()
			}
		}
		if wants(n.Outputs[i]) {
			return output(n, i, t)
		}
		return nil
	}
	_, _, err = r.Resume(ctx, kept, c.nodes[0], &all, func(id graph.NodeID) bool { return slices.Contains(c.nodes, id) })
	if err == nil && !found {
		err = fmt.Errorf("%s was not computed", w.Reference.Node(last).Name)
	}
	return nsr, err
}

// judgeSite says which trial lowers the errors most, and whether it is kept.
func (b *Bench) judgeSite(s *site, errors [][][]float64, index int, bar float64) (Step, int) {
	column := func(k int) []float64 {
		list := make([]float64, len(errors))
		for i := range errors {
			list[i] = errors[i][index][k]
		}
		return list
	}
	best := 0
	var least analysis.Estimate
	now := column(0)
	for k := range s.trials {
		if e := analysis.Paired(now, column(k+1)); k == 0 || better(e, least) {
			best, least = k, e
		}
	}
	step := Step{By: string(s.trials[best].method), Trials: len(s.trials)}
	step.measured(least)
	if step.Kept = b.keeps(least, bar); !step.Kept {
		step.Why = "the errors of what reads it do not fall by more than their error bar"
	}
	return step, best
}

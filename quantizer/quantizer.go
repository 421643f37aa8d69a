// Package quantizer configures a graph for a target: it decides which tensors are quantized, by which policy, and which of
// them share a scale. It measures nothing; calib fills in the scales.
//
// Unstable: it may change without notice.
package quantizer

import (
	"cmp"
	"fmt"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Options change what the target prescribes. The zero value takes everything from the target.
type Options struct {
	// Decisions are what was decided about the graph's operators and slots; nil: nothing. Effects, if not nil, is filled in with what
	// became of them.
	Decisions *decision.Table
	Effects   *Effects
}

// Configure returns the configuration of every slot of g, ready for calibration: INITIAL where a range is to be found,
// PASSIVE_INIT and OVERLAPPED where another slot's scale is used, FP32 elsewhere. The warnings concern the whole graph.
func Configure(g *graph.Graph, a *dispatch.Assignment, t *target.Target, o Options) (*tqc.Set, []tqc.Warning, error) {
	b, err := t.Bind(g)
	if err != nil {
		return nil, nil, fmt.Errorf("configure: %w", err)
	}
	if len(a.Domains) != g.NumNodes() {
		return nil, nil, fmt.Errorf("configure: domains of %d nodes for a graph of %d", len(a.Domains), g.NumNodes())
	}
	c := &configurer{g: g, a: a, b: b}
	if o.Decisions == nil {
		set, err := c.run(nil)
		if err == nil && c.findSigned(set) {
			set, err = c.run(nil)
		}
		return set, warnings(g, set, t), err
	}
	d := &decided{g: g, b: b, t: o.Decisions, out: cmp.Or(o.Effects, &Effects{})}
	d.out.Used = map[int]bool{}
	if c.align, err = d.alignments(a.Domains); err != nil {
		return nil, nil, fmt.Errorf("configure: %w", err)
	}
	set, err := c.run(nil)
	if err != nil {
		return nil, nil, err
	}
	c.findSigned(set)
	d.signed = c.signed
	if err := d.gather(set); err != nil {
		return nil, nil, fmt.Errorf("configure: %w", err)
	}
	if set, err = c.run(d.adapt); err != nil {
		return nil, nil, err
	}
	if err := d.finish(set); err != nil {
		return nil, nil, fmt.Errorf("configure: %w", err)
	}
	d.aligned(set, c.align)
	return set, warnings(g, set, t), nil
}

// configurer makes sets of one assignment.
type configurer struct {
	g *graph.Graph
	a *dispatch.Assignment
	b *target.Bound
	// align says by NodeID which tensors of the operators that run on integers share a scale; nil: as the target's rows have it.
	align []target.Align
	// signed has by SlotID the policies of what a product reads as symmetric and signed integers; nil: nothing is known of them yet.
	signed map[tqc.SlotID]tqc.Config
}

// findSigned finds the slots that have to be symmetric and signed for the target to multiply integers, in a set that the target's policies
// alone made: the factors of products, and all that share a scale with one. It reports whether there are any.
func (r *configurer) findSigned(set *tqc.Set) bool {
	roots := map[tqc.SlotID]tqc.Config{}
	for _, id := range r.g.Nodes() {
		for i, s := range set.Inputs(id) {
			if r.a.Domains[id] != tqc.DomainInt || s == tqc.NoSlot || set.Slot(s).State() == tqc.FP32 || !r.b.SignedFactor(id, i) {
				continue
			}
			roots[set.Root(s)] = r.b.SignedConfig(id)
		}
	}
	r.signed = map[tqc.SlotID]tqc.Config{}
	for s := range tqc.SlotID(set.NumSlots()) {
		if c, is := roots[set.Root(s)]; is {
			r.signed[s] = c
		}
	}
	return len(r.signed) > 0
}

// run makes a set by the passes; adapt, if not nil, changes the policies that the target has for slots.
func (r *configurer) run(adapt func(*tqc.Set, tqc.SlotID, tqc.Config) (tqc.Config, error)) (*tqc.Set, error) {
	set := tqc.NewSet(r.g)
	copy(set.Domains, r.a.Domains)
	copy(set.Why, r.a.Why)
	copy(set.Fused, r.a.Fused)
	c := &passes.Context{Graph: r.g, Bound: r.b, Set: set}
	if r.align != nil {
		c.Align = func(id graph.NodeID) target.Align { return r.align[id] }
	}
	c.Adapt = func(s tqc.SlotID, cfg tqc.Config) (tqc.Config, error) {
		if signed, is := r.signed[s]; is {
			signed.Observer, signed.Rounding = cfg.Observer, cfg.Rounding
			cfg = signed
		}
		if adapt == nil {
			return cfg, nil
		}
		return adapt(set, s, cfg)
	}
	for _, p := range passes.Configuration {
		if err := p.Run(c); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func warnings(g *graph.Graph, set *tqc.Set, t *target.Target) []tqc.Warning {
	if set == nil {
		return nil
	}
	for i := range set.NumSlots() {
		if set.Slot(tqc.SlotID(i)).State() != tqc.FP32 {
			return nil
		}
	}
	return []tqc.Warning{{Text: fmt.Sprintf("nothing is quantized: for %s, no operator of %q is worth quantizing", t.Name, g.Name)}}
}

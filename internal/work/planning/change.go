package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/quantizer/decision"
	"qwb/quantizer/passes"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Change is a plan that is being changed: what it is, and what it is derived with.
type Change struct {
	*open.Job
	Planned    *Planned
	Derivation *Derivation
	// was is what the decisions of the plan derive to, and other the first slot where that is not what the plan holds: another version of
	// the program made it, or its decisions were edited. The stored numbers stand.
	Was   *Derived
	Other string
	used  *Derivation // the last one that derived: d, or one with other tuned values
	// accept, if not nil, may refuse what was derived before it is written.
	accept func(*Derived) error
}

// NewChange opens the plan with all that it is derived with. A plan of version 1 is brought over first, in memory.
func NewChange(ctx context.Context, j *open.Job, threads int) (*Change, error) {
	p, err := openToChange(j, j.Plan)
	if err != nil {
		return nil, err
	}
	c := &Change{Job: j, Planned: p}
	if err := c.Open(ctx, threads); err != nil {
		p.Close()
		return nil, err
	}
	return c, nil
}

// changeWithout opens a plan whose tuned values are lost, to go to a state that does not need them.
func changeWithout(j *open.Job, threads int) (*Change, error) {
	p, sum, err := j.ReadPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	t, err := planTarget(j, j.Plan, p)
	if err != nil {
		return nil, err
	}
	m, err := openPlanModel(j, j.Plan, p)
	if err != nil {
		return nil, err
	}
	c := &Change{Job: j, Planned: &Planned{Model: m, File: j.Plan, Plan: p, Target: t, Reference: m.Graph, Catalog: &j.Catalog,
		ctx: j.Context(), Sum: sum, lost: true}}
	if c.Derivation, err = derivationOf(j, c.Planned, threads); err != nil {
		m.Close()
		return nil, err
	}
	c.used = c.Derivation
	return c, nil
}

func (c *Change) Close() { c.Planned.Close() }

func (c *Change) Open(ctx context.Context, threads int) (err error) {
	if c.Derivation, err = derivationOf(c.Job, c.Planned, threads); err != nil {
		return err
	}
	c.used = c.Derivation
	if c.Planned.Plan.Options != nil {
		if err := c.migrate(ctx); err != nil {
			return fmt.Errorf("%s is a plan of version 1 and cannot be converted: %w; it can be read, evaluated and exported, but not changed: "+
				"run qwb calibrate again", c.Planned.File, err)
		}
	}
	if c.Was, err = c.Derivation.Derive(ctx, c.Planned.Plan.Decisions); err != nil {
		return &fault.FileError{File: c.Planned.File, Err: err}
	}
	structure, number := Difference(c.Planned.Graph, c.Planned.Set, c.Was.Set)
	if c.Other = structure; structure == "" {
		c.Other = number
	}
	return nil
}

// stands warns where the plan's numbers are not those that this program derives, and refuses where more than numbers differ.
func (c *Change) stands() error {
	if c.Other == "" {
		return nil
	}
	if structure, _ := Difference(c.Planned.Graph, c.Planned.Set, c.Was.Set); structure != "" {
		return fmt.Errorf("%s: this version of qwb computes another plan from its decisions (first difference: %s): "+
			"run qwb plan rederive %s first", c.Planned.File, structure, c.Planned.File)
	}
	c.Warn("%s: another version of qwb or another machine computed other numbers, first at %s; the stored ones stay in "+
		"force until qwb plan rederive", c.Planned.File, c.Other)
	return nil
}

// Difference names the first place at which two sets of a graph differ: in structure (domains, states, policies, who governs whom),
// or in numbers only.
func Difference(g *graph.Graph, a, b *tqc.Set) (structure, number string) {
	order, err := g.Order()
	if err != nil {
		return err.Error(), ""
	}
	for _, id := range order {
		if a.Domains[id] != b.Domains[id] || a.Fused[id] != b.Fused[id] {
			return g.Node(id).Name, ""
		}
		for _, list := range [][]tqc.SlotID{a.Inputs(id), a.Outputs(id)} {
			for _, s := range list {
				if s == tqc.NoSlot {
					continue
				}
				x, y := a.Save(s), b.Save(s)
				switch {
				case x.State != y.State || x.Root != y.Root || x.State != tqc.FP32 && !x.Config.SameScheme(y.Config):
					return SlotName(g, a, s), ""
				case number == "" && !sameParams(x.Params, y.Params):
					number = SlotName(g, a, s)
				}
			}
		}
	}
	return "", number
}

func sameParams(a, b tqc.Params) bool {
	return slices.Equal(a.Scale, b.Scale) && slices.Equal(a.ZeroPoint, b.ZeroPoint) && a.Global == b.Global && slices.Equal(a.Codes, b.Codes)
}

// Derive derives next's decisions. What automatic choices chose becomes part of the last step. Numbers that the change does not touch
// stand as they are in the plan.
func (c *Change) Derive(ctx context.Context, next *plan.Plan) (*Derived, error) {
	d, err := c.under(next)
	if err != nil {
		return nil, err
	}
	c.used = d
	out, err := d.Remembered(ctx, next)
	if err != nil {
		return nil, err
	}
	if c.Other != "" && d == c.Derivation {
		if err := stand(c.Planned.Graph, c.Planned.Set, c.Was.Set, out.Set); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// under is the derivation for other decisions: another one than the plan's where those name other tuned values.
func (c *Change) under(next *plan.Plan) (*Derivation, error) {
	was, is := TunedFile(c.Planned.File, c.Planned.Plan), TunedFile(c.Planned.File, next)
	if was == nil && is == nil || was != nil && is != nil && was.SHA256 == is.SHA256 {
		return c.Derivation, nil
	}
	normal, err := NormalAgain(c.Job, c.Planned)
	if err != nil {
		return nil, err
	}
	d := &Derivation{Target: c.Derivation.Target, Stats: c.Derivation.Base, Imported: c.Derivation.Imported, Own: c.Derivation.Own,
		Threads: c.Derivation.Threads}
	return d, TunedBy(c.Job, d, c.Planned.File, next, normal)
}

// TunedBy gives a derivation, whose statistics are of the normal form, the graph with the tuned values that a plan names.
func TunedBy(j *open.Job, d *Derivation, planFile string, p *plan.Plan, normal *graph.Graph) error {
	d.Base = d.Stats
	is := TunedFile(planFile, p)
	if is == nil {
		d.tuned(normal, nil)
		return nil
	}
	o, err := ReadOverlay(j, planFile, is, normal)
	if err != nil {
		return err
	}
	reference, err := o.Reference(normal)
	if err != nil {
		return fault.Checkf("%s: tuned values: %v", planFile, err)
	}
	if d.Stats, _, err = Stepped(j, planFile, p, d.Base); err != nil {
		return err
	}
	d.tuned(reference, o)
	return nil
}

// Remembered derives a plan's decisions and adds what automatic choices chose to its last step.
func (d *Derivation) Remembered(ctx context.Context, p *plan.Plan) (*Derived, error) {
	out, err := d.Derive(ctx, p.Decisions)
	if err != nil || len(out.Choices) == 0 {
		return out, err
	}
	p.Also(out.Choices...)
	return d.Derive(ctx, p.Decisions)
}

// stand puts stored numbers into a new set wherever both derivations, of before and of now, agree about a slot.
func stand(g *graph.Graph, stored, was, now *tqc.Set) error {
	touched := map[graph.NodeID]bool{}
	kept := map[tqc.SlotID]bool{}
	for id := range tqc.SlotID(now.NumSlots()) {
		s, w, n := stored.Save(id), was.Save(id), now.Save(id)
		if now.Root(id) != id || w.Root != id || s.Root != id || s.State != n.State || w.State != n.State || len(s.Params.Scale) == 0 ||
			!n.Config.SameScheme(w.Config) || !n.Config.SameScheme(s.Config) || !sameParams(w.Params, n.Params) || sameParams(s.Params, n.Params) {
			continue
		}
		if err := now.Render(id, s.Params); err != nil {
			return err
		}
		kept[id] = true
		for _, member := range now.Group(id) {
			touched[now.Slot(member).Node] = true
		}
	}
	var nodes []graph.NodeID
	for node := range touched {
		if bias := now.Input(node, graph.BiasInput); bias != tqc.NoSlot && !kept[bias] &&
			!sameParams(was.Save(bias).Params, now.Save(bias).Params) {
			nodes = append(nodes, node)
		}
	}
	_, err := passes.SolveBiasOf(g, now, nodes)
	return err
}

// write makes the plan of a derived set and writes it. step is what a result prints about it.
func (c *Change) write(next *plan.Plan, out *Derived) error {
	meta := next.Meta
	if c.Derivation.Stats != nil {
		meta.Warnings = PlanWarnings(out.Warnings, c.used.Stats, meta.Data.Synthetic)
	}
	c.WarnNew(c.Planned.Plan, meta.Warnings)
	c.warnTuned(next, out)
	np, err := plan.FromSet(out.Graph, out.Set, meta)
	if err != nil {
		return err
	}
	np.Decisions, np.Steps, np.Redo = next.Decisions, next.Steps, next.Redo
	if v := c.Planned.Plan.Verification; v != nil { // it holds as long as nothing that counts has changed
		a, err := np.Hash()
		b, err2 := c.Planned.Plan.Hash()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if a == b {
			np.Verification = v
		}
	}
	return RewritePlan(c.Job, c.Planned, np)
}

// warnTuned says which tuned values do not fit what a change made of the plan. Where the change names other values they were made for it.
func (c *Change) warnTuned(next *plan.Plan, out *Derived) {
	was, is := TunedFile(c.Planned.File, c.Planned.Plan), TunedFile(c.Planned.File, next)
	if c.Planned.Overlay != nil && was != nil && is != nil && was.SHA256 == is.SHA256 {
		_, stale := c.Planned.Overlay.Apply(c.Planned.Reference, out.Set)
		warnStale(c.Job, stale)
	}
}

// Decide appends what a command decided, derives, and writes the plan.
func (c *Change) Decide(ctx context.Context, step ...decision.Decision) (*Derived, error) {
	if err := c.stands(); err != nil {
		return nil, err
	}
	next := *c.Planned.Plan
	first := len(next.Decisions)
	next.Decide(step...)
	if err := decision.CheckList(next.Decisions); err != nil {
		return nil, err
	}
	out, err := c.Derive(ctx, &next)
	if err != nil {
		return nil, err
	}
	if err := c.Effective(next.Decisions, first, len(step), out); err != nil {
		return nil, err
	}
	if c.accept != nil {
		if err := c.accept(out); err != nil {
			return nil, out.Table.Fail(first+1, err)
		}
	}
	return out, c.write(&next, out)
}

// Effective refuses decisions by hand from which nothing follows.
func (c *Change) Effective(list []decision.Decision, first, n int, out *Derived) error {
	for i := first; i < first+n; i++ {
		d := &list[i]
		if d.By != decision.ByUser || d.Properties.Empty() || out.Effects.Used[i+1] {
			continue
		}
		return out.Table.Fail(i+1, fmt.Errorf("it changes nothing: %s", c.idle(d, out)))
	}
	return nil
}

// idle says why nothing follows from a decision.
func (c *Change) idle(d *decision.Decision, out *Derived) string {
	sel, err := d.Select.Selector()
	if err != nil {
		return err.Error()
	}
	m, err := sel.Match(out.Graph, out.Set)
	if err != nil {
		return err.Error()
	}
	nodes := slices.Clone(m.Nodes)
	for _, s := range m.Slots {
		nodes = append(nodes, out.Set.Slot(s).Node)
	}
	for _, id := range nodes {
		if out.Set.Domains[id] != tqc.DomainInt {
			return fmt.Sprintf("%q does not run on integers (%s)", out.Graph.Node(id).Name, out.Set.Why[id])
		}
	}
	if d.Align != "" && d.Align != target.AlignNone.String() && c.Derivation.Imported == nil {
		return "none of its tensors can share a scale here: each is also read by another operator, takes its scale from elsewhere, has another " +
			"integer type, or has an activation behind it"
	}
	if len(m.Slots) > 0 {
		return fmt.Sprintf("%s does not quantize %s", c.Planned.Target.Name, SlotName(out.Graph, out.Set, m.Slots[0]))
	}
	return fmt.Sprintf("%s has nothing there that this property applies to", c.Planned.Target.Name)
}

package plan

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// FromSet returns the plan of a configured graph.
func FromSet(g *graph.Graph, set *tqc.Set, m Meta) (*Plan, error) {
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p := &Plan{Meta: m, Schemes: map[string]tqc.Config{}}
	names := map[tqc.Config]string{}
	for _, id := range order {
		n := Node{Name: g.Node(id).Name, Op: g.Node(id).Op, Domain: set.Domains[id], Why: set.Why[id]}
		if f := set.Fused[id]; f != graph.NoNode {
			n.Fused = g.Node(f).Name
		}
		if n.Domain.Quantizes() {
			for _, list := range [][]tqc.SlotID{set.Inputs(id), set.Outputs(id)} {
				for _, s := range list {
					if s != tqc.NoSlot {
						n.Slots = append(n.Slots, p.slot(g, set, s, names))
					}
				}
			}
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p, nil
}

func (p *Plan) slot(g *graph.Graph, set *tqc.Set, id tqc.SlotID, names map[tqc.Config]string) Slot {
	sl, sv := set.Slot(id), set.Save(id)
	s := Slot{At: decision.At(sl.Kind, sl.Index), State: sv.State, Observer: sv.Observer}
	if sv.State == tqc.FP32 {
		return s
	}
	name, ok := names[sv.Config]
	if !ok {
		name = p.schemeName(sv.Config)
		names[sv.Config], p.Schemes[name] = name, sv.Config
	}
	s.Scheme = name
	if sv.Root != id {
		r := set.Slot(sv.Root)
		s.Root = slotName(g.Node(r.Node).Name, decision.At(r.Kind, r.Index))
	}
	s.Scale, s.ZeroPoint, s.Global, s.Codes = sv.Params.Scale, sv.Params.ZeroPoint, sv.Params.Global, sv.Params.Codes
	return s
}

// schemeName describes a policy in a word: "int8-symmetric-channel0-minmax". Where another policy of the plan has the same
// description, a number is appended.
func (p *Plan) schemeName(c tqc.Config) string {
	sym, gran := "asymmetric", ""
	if c.Policy.Has(tqc.Symmetric) {
		sym = "symmetric"
	}
	switch {
	case c.Policy.Has(tqc.PerChannel):
		gran = fmt.Sprintf("channel%d", c.Axis)
	case c.Blocks != tqc.FreeScales:
		gran = fmt.Sprintf("%s%d", c.Blocks, c.GroupSize)
	case c.Policy.Has(tqc.PerGroup):
		gran = fmt.Sprintf("group%d", c.GroupSize)
	case c.Policy.Has(tqc.PerToken):
		gran = "token"
	}
	parts := []string{c.FormatName(), sym}
	if c.Policy.Has(tqc.PowerOf2) && c.Blocks == tqc.FreeScales {
		parts = append(parts, "pow2")
	}
	if c.RunTime() {
		parts = append(parts, "dynamic")
	}
	for _, s := range []string{gran, string(c.Observer)} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	base := strings.Join(parts, "-")
	name := base
	for i := 2; ; i++ {
		if _, taken := p.Schemes[name]; !taken {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}

// Apply returns the set that the plan describes for g. The plan must name every node of g and no other, and every input and
// output of its integer nodes; the scales must be as many as the channels they are for and not vary along a summed axis.
func (p *Plan) Apply(g *graph.Graph) (*tqc.Set, error) {
	set, err := p.apply(g)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return set, nil
}

func (p *Plan) apply(g *graph.Graph) (*tqc.Set, error) {
	ix, err := p.index()
	if err != nil {
		return nil, err
	}
	stored, err := p.saved(ix)
	if err != nil {
		return nil, err
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	set := tqc.NewSet(g)
	ids := make([]tqc.SlotID, len(stored)) // by number of the index
	for i := range ids {
		ids[i] = tqc.NoSlot
	}
	byName := make(map[string]graph.NodeID, len(order))
	for _, id := range order {
		n := g.Node(id)
		byName[n.Name] = id
		i, ok := ix.nodes[n.Name]
		if !ok {
			return nil, fmt.Errorf("node %q (%s) of the model is not in the plan", n.Name, n.Op)
		}
		pn := &p.Nodes[i]
		if pn.Op != n.Op {
			return nil, fmt.Errorf("node %q is %s in the model and %s in the plan", n.Name, n.Op, pn.Op)
		}
		set.Domains[id], set.Why[id] = pn.Domain, pn.Why
		if !pn.Domain.Quantizes() {
			continue
		}
		for _, list := range [][]tqc.SlotID{set.Inputs(id), set.Outputs(id)} {
			for _, s := range list {
				if s == tqc.NoSlot {
					continue
				}
				name := decision.At(set.Slot(s).Kind, set.Slot(s).Index)
				k, ok := ix.slots[slotName(n.Name, name)]
				if !ok {
					return nil, fmt.Errorf("node %q: slot %s is not in the plan", n.Name, name)
				}
				ids[k] = s
			}
		}
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		id, ok := byName[n.Name]
		if !ok {
			return nil, fmt.Errorf("node %q (%s) of the plan is not in the model", n.Name, n.Op)
		}
		if n.Fused != "" {
			set.Fused[id] = byName[n.Fused]
		}
	}
	saved := make([]tqc.Saved, set.NumSlots())
	for i := range saved {
		saved[i] = tqc.Saved{State: tqc.FP32, Root: tqc.SlotID(i)}
	}
	for k, s := range ids {
		if s == tqc.NoSlot {
			return nil, fmt.Errorf("slot %s of the plan is not in the model", ix.names[k])
		}
		sv := stored[k]
		sv.Root = ids[sv.Root]
		if sv.Root == tqc.NoSlot {
			return nil, fmt.Errorf("slot %s: its root is not in the model", ix.names[k])
		}
		sv.Weight = sv.State != tqc.FP32 && g.Const(set.Slot(s).Value) != nil
		saved[s] = sv
	}
	if err := set.Restore(saved); err != nil {
		return nil, err
	}
	return set, p.fit(g, set, ids, ix)
}

// fit compares scales, and integers that the plan holds, with the tensors they are for.
func (p *Plan) fit(g *graph.Graph, set *tqc.Set, ids []tqc.SlotID, ix *index) error {
	for k, s := range ids {
		sl := set.Slot(s)
		if err := set.Params(s).CheckCodes(&sl.Config, g.Const(sl.Value)); err != nil {
			return fmt.Errorf("slot %s: %w", ix.names[k], err)
		}
		if sl.State() == tqc.FP32 || sl.Config.Policy.Has(tqc.PerTensor) {
			continue
		}
		if sl.Kind == tqc.Input {
			if err := tqc.CheckGranularity(g, sl.Node, sl.Index, sl.Config); err != nil {
				return fmt.Errorf("slot %s: %w", ix.names[k], err)
			}
		}
		have := len(set.Params(s).Scale)
		want, known := tqc.NumScales(g.Value(sl.Value).Shape, &sl.Config)
		if have > 0 && known && want != int64(have) {
			return fmt.Errorf("slot %s: %d scales for %s, wanted %d", ix.names[k], have, g.Value(sl.Value).Shape, want)
		}
	}
	return nil
}

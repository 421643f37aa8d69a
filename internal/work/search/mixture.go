package search

import (
	"context"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Mixture is what a search in several formats chooses from: the units of a network, and what each of them may become.
type Mixture struct {
	D       *planning.Derivation
	Start   *planning.Derived
	Bound   *target.Bound
	formats []numberFormat
	members map[tqc.SlotID][]tqc.SlotID // by root: the slots that share its scale
	Units   []MixedUnit
	// refuse says why a plan cannot be exported; nil: every plan can. note tells the user.
	refuse func(*planning.Derived) error
	note   func(format string, a ...any)
}

// MixedUnit is a part of a network that changes its format as one: operators that sum products or compute new numbers, with what is fused
// to them; those whose results share a scale are in one unit.
type MixedUnit struct {
	Nodes   []graph.NodeID
	Joins   []graph.NodeID // other operators whose results share the scale of theirs: a Concat
	Options []MixedOption  // the first is the unit as it is
}

// MixedOption is a format that a unit may have.
type MixedOption struct {
	Format string
	Each   []decision.Properties // by operator, then by join; empty where it stays as it is
}

// NewMixture finds the units of the operators listed, and what the target lets them become. What was decided about an operator stays. Where
// float32 is the only format each operator is a unit.
func NewMixture(d *planning.Derivation, start *planning.Derived, nodes []graph.NodeID, formats []numberFormat) (*Mixture, error) {
	bound, err := d.Target.Bind(start.Graph)
	if err != nil {
		return nil, err
	}
	m := &Mixture{D: d, Start: start, Bound: bound, formats: formats, members: map[tqc.SlotID][]tqc.SlotID{}}
	for id := range tqc.SlotID(start.Set.NumSlots()) {
		root := start.Set.Root(id)
		m.members[root] = append(m.members[root], id)
	}
	var units []MixedUnit
	if len(formats) > 1 || formats[0].name != string(decision.FP32) {
		units = m.regions(nodes)
	} else {
		for _, id := range nodes {
			units = append(units, MixedUnit{Nodes: []graph.NodeID{id}})
		}
	}
	for _, u := range units {
		u.Options = []MixedOption{{m.asIs(u.Nodes), make([]decision.Properties, len(u.Nodes)+len(u.Joins))}}
		for _, f := range formats {
			if o, ok := m.option(&u, f); ok {
				u.Options = append(u.Options, o)
			}
		}
		m.Units = append(m.Units, u)
	}
	return m, nil
}

// option is a unit in a format, false where no operator of it can have that. Operators that stay in float go together or not at all.
func (m *Mixture) option(u *MixedUnit, f numberFormat) (o MixedOption, some bool) {
	o.Format = f.name
	var activations tqc.Scheme
	for _, id := range u.Nodes {
		p, ok := m.become(id, f)
		if !ok && f.domain != "" {
			return o, false
		}
		if !ok {
			p = decision.Properties{}
		}
		if some = some || ok; p.Activations != (tqc.Scheme{}) {
			activations = p.Activations
		}
		o.Each = append(o.Each, p)
	}
	for _, id := range u.Joins {
		var p decision.Properties
		if activations != (tqc.Scheme{}) && m.activationsCan(id, activations) {
			p.Activations = activations
		}
		o.Each = append(o.Each, p)
	}
	return o, some
}

// regions joins operators whose results share a scale.
func (m *Mixture) regions(nodes []graph.NodeID) []MixedUnit {
	at := map[graph.NodeID]int{} // by operator: the place of the first of its region
	first := make([]int, len(nodes))
	for i, id := range nodes {
		at[id], first[i] = i, i
	}
	find := func(i int) int {
		for first[i] != i {
			i = first[i]
		}
		return i
	}
	owner := map[tqc.SlotID]int{} // by root of a result
	var roots []tqc.SlotID        // of the owners
	for i, id := range nodes {
		for _, member := range m.Start.Set.Together(id, m.Bound.Order) {
			for _, s := range m.Start.Set.Outputs(member) {
				if s == tqc.NoSlot || m.Start.Set.Slot(s).State() == tqc.FP32 {
					continue
				}
				root := m.Start.Set.Root(s)
				j, ok := owner[root]
				if !ok {
					owner[root] = i
					roots = append(roots, root)
					continue
				}
				if a, b := find(i), find(j); a != b {
					first[max(a, b)] = min(a, b)
				}
			}
		}
	}
	var list []MixedUnit
	place := map[int]int{}
	for i, id := range nodes {
		k, ok := place[find(i)]
		if !ok {
			k = len(list)
			place[find(i)] = k
			list = append(list, MixedUnit{})
		}
		list[k].Nodes = append(list[k].Nodes, id)
	}
	for _, root := range roots {
		u := &list[place[find(owner[root])]]
		id := m.Start.Set.Slot(root).Node
		if head := m.Start.Set.Fused[id]; head != graph.NoNode {
			id = head
		}
		if _, ours := at[id]; !ours && m.Start.Set.Slot(root).Kind == tqc.Output && !slices.Contains(u.Joins, id) {
			u.Joins = append(u.Joins, id)
		}
	}
	return list
}

// asIs names the format that a unit has: that of its weights where they are narrow, else that of what it reads.
func (m *Mixture) asIs(nodes []graph.NodeID) string {
	narrow := ""
	bits := 1 << 10
	for _, id := range nodes {
		if s, ok := m.weight(id); ok {
			if f := m.Start.Set.Slot(s).Config.Format; f.Bits < bits {
				bits, narrow = f.Bits, plainName(f.FormatName())
			}
		}
	}
	wide := ""
	for _, id := range nodes {
		for _, s := range m.activations(id) {
			if sl := m.Start.Set.Slot(s); sl.Kind == tqc.Input && (wide == "" || sl.Config.Bits > 8) {
				wide = plainName(sl.Config.FormatName())
			}
		}
	}
	if narrow != "" && bits < 8 || wide == "" {
		return narrow
	}
	return wide
}

// decisions are what a choice decides, one for each set of properties: wider activations last, since the last one about a tensor holds.
func (m *Mixture) decisions(goal string, choice []int) []decision.Decision {
	var list []decision.Decision
	for i, k := range choice {
		for j, p := range m.Units[i].Options[k].Each {
			if p.Empty() {
				continue
			}
			words := strings.Join(p.Words(), " ")
			at := slices.IndexFunc(list, func(d decision.Decision) bool { return strings.Join(d.Properties.Words(), " ") == words })
			if at < 0 {
				at = len(list)
				list = append(list, decision.Decision{By: decision.BySearch, Goal: goal, Properties: p})
			}
			list[at].Select = append(list[at].Select, m.Start.Graph.Node(append(slices.Clone(m.Units[i].Nodes), m.Units[i].Joins...)[j]).Name)
		}
	}
	arrange.Stable(list, func(a, b decision.Decision) int { return a.Activations.Bits - b.Activations.Bits })
	return list
}

// all is the choice in which every unit that can has a format.
func (m *Mixture) all(format string) (choice []int, some bool) {
	choice = make([]int, len(m.Units))
	for i := range m.Units {
		for k := range m.Units[i].Options {
			if k > 0 && m.Units[i].Options[k].Format == format {
				choice[i], some = k, true
			}
		}
	}
	return choice, some
}

// Derive is what follows from a choice, with the decisions that make it. Operators that have to leave integers with those around them get
// the precision of what they read.
func (m *Mixture) Derive(ctx context.Context, base []decision.Decision, goal string,
	choice []int) (*planning.Derived, []decision.Decision, error) {
	list := m.decisions(goal, choice)
	if len(list) == 0 {
		return m.Start, nil, nil
	}
	out, err := m.D.Derive(ctx, append(base[:len(base):len(base)], list...))
	if err != nil {
		return nil, nil, err
	}
	if !m.follow(out, list) {
		return out, list, nil
	}
	out, err = m.D.Derive(ctx, append(base[:len(base):len(base)], list...))
	return out, list, err
}

// follow adds to the decisions about float precisions the operators that went to float32 between operators of one of them.
func (m *Mixture) follow(out *planning.Derived, list []decision.Decision) (some bool) {
	domains := slices.Clone(out.Set.Domains)
	for _, id := range m.Bound.Order {
		if domains[id] != tqc.DomainFP32 || m.Start.Set.Domains[id] != tqc.DomainInt || out.Table.Nodes[id].Domain != "" {
			continue
		}
		same := tqc.DomainFP32
		for _, i := range target.DataInputs(out.Graph, id) {
			p := out.Graph.Producer(out.Graph.Node(id).Input(i))
			switch {
			case p == graph.NoNode:
			case same == tqc.DomainFP32 || same == domains[p]:
				same = domains[p]
			default:
				same = tqc.DomainSOI // not one of them
			}
		}
		domain, ok := decision.DomainOf(same)
		at := slices.IndexFunc(list, func(d decision.Decision) bool { return d.Domain == domain })
		if same != tqc.DomainFP32 && same.Float() && ok && at >= 0 {
			domains[id], some = same, true
			list[at].Select = append(list[at].Select, out.Graph.Node(id).Name)
		}
	}
	return some
}

// Chosen is what the units have in the end: some are taken along to float by others.
func (m *Mixture) Chosen(out *planning.Derived, choice []int) []int {
	list := slices.Clone(choice)
	for i, u := range m.Units {
		domain := out.Set.Domains[u.Nodes[0]]
		if !domain.Float() || slices.ContainsFunc(u.Nodes, func(id graph.NodeID) bool { return out.Set.Domains[id] != domain }) {
			continue
		}
		name, _ := decision.DomainOf(domain)
		if k := slices.IndexFunc(u.Options, func(o MixedOption) bool { return o.Each[0].Domain == name }); k > 0 {
			list[i] = k
		}
	}
	return list
}

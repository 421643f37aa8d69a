package search

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/analysis/assign"
	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// numberFormat is a format that a search may give to operators, as it was asked for.
type numberFormat struct {
	name   string
	domain decision.Domain     // of floats
	wide   bool                // integers of more than eight bits
	words  decision.Properties // of what was asked for as KEY=VALUE; empty for a name
}

// ParseFormats reads the formats of a search: domains (fp32, fp16, bf16, tf32), formats of numbers (int8, int16, int4, e4m3, ...) and properties
// joined by + (weights=int4-sym-g32+activations=int16-sym-tensor).
func ParseFormats(list []string) ([]numberFormat, error) {
	var out []numberFormat
	for _, text := range list {
		f := numberFormat{name: text}
		switch {
		case slices.ContainsFunc(out, func(o numberFormat) bool { return o.name == text }):
			return nil, fault.Usagef("--formats: %s is there twice", text)
		case strings.Contains(text, "="):
			var err error
			if f.words, err = decision.ParseProperties(strings.Split(text, "+")); err != nil {
				return nil, fault.Usagef("--formats %s: %w", text, err)
			}
			rest := f.words
			rest.Domain, rest.Weights, rest.Activations = "", tqc.Scheme{}, tqc.Scheme{}
			if !rest.Empty() {
				return nil, fault.Usagef("--formats %s: only domain, weights and activations are formats", text)
			}
			f.domain = f.words.Domain
		case text != string(decision.Int) && slices.Contains(decision.Domains, decision.Domain(text)):
			f.domain = decision.Domain(text)
		default:
			s, err := tqc.ParseScheme(text + "-sym-tensor")
			if f.wide = s.Bits > 8; err != nil || s.Bits > 16 {
				return nil, fault.Usagef("--formats %s: one of fp32, fp16, bf16, tf32, int16, int8, int4, e4m3, e5m2, e2m1, nf4, other widths of integers, or properties like weights=int4-sym-g32", text)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

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

// MixedUnit is a part of a network that changes its format as one: operators that sum products or compute new numbers, with what is fused to
// them; those whose results share a scale are in one unit.
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

// mixed reports whether there are formats other than float32 to choose from.
func (s *searcher) mixed() bool {
	return len(s.formats) > 0 && (len(s.formats) > 1 || s.formats[0].name != string(decision.FP32)) || s.o.MaxCost != nil || s.o.Costing.What != ""
}

// asked are the formats that operators may get beside their own.
func (s *searcher) asked() []numberFormat {
	if len(s.formats) == 0 {
		return []numberFormat{{name: string(decision.FP32), domain: decision.FP32}}
	}
	return s.formats
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

// plainName is the name of a format without its sign: uint8 is int8.
func plainName(format string) string { return strings.TrimPrefix(format, "u") }

// weight is the slot of an operator's quantized weight, false where it has none that may change.
func (m *Mixture) weight(id graph.NodeID) (tqc.SlotID, bool) {
	if op := m.Bound.Ops[id]; op == nil || op.Role != target.Weighted {
		return tqc.NoSlot, false
	}
	for _, s := range m.Start.Set.Inputs(id) {
		if s == tqc.NoSlot {
			continue
		}
		if sl := m.Start.Set.Slot(s); sl.Weight && sl.State() != tqc.FP32 && sl.Config.Observer != tqc.ObserverNone {
			cell := &m.Start.Table.Slots[s]
			return s, !cell.Selected("weights") && !cell.Selected("scale")
		}
	}
	return tqc.NoSlot, false
}

// activations are the quantized slots of an operator that are no constants.
func (m *Mixture) activations(id graph.NodeID) (list []tqc.SlotID) {
	for _, s := range append(slices.Clone(m.Start.Set.Inputs(id)), m.Start.Set.Outputs(id)...) {
		if s == tqc.NoSlot {
			continue
		}
		if sl := m.Start.Set.Slot(s); !sl.Weight && sl.State() != tqc.FP32 {
			list = append(list, s)
		}
	}
	return list
}

// become is what has to be decided about an operator for it to have a format; false where the target, or a decision, does not let it.
func (m *Mixture) become(id graph.NodeID, f numberFormat) (p decision.Properties, ok bool) {
	if f.domain != "" && (m.D.Target.Float == target.FloatAbsent || wanted(m.Start, m.Start.Graph, id)) {
		return p, false
	}
	switch {
	case !f.words.Empty():
		if f.words.Weights != (tqc.Scheme{}) && !m.weightCan(id, f.words.Weights) || f.words.Activations != (tqc.Scheme{}) && !m.activationsCan(id, f.words.Activations) {
			return p, false
		}
		return f.words, true
	case f.domain != "":
		return decision.Properties{Domain: f.domain}, true
	case m.D.Imported != nil:
		return p, false
	}
	schemes := m.Bound.SchemesOf(m.Start.Graph.Node(id))
	p.Activations = m.first(schemes.Activation, f.name, m.activations(id), func(s tqc.Scheme) bool { return m.activationsCan(id, s) })
	// Weights of more than eight bits cost twice as much for next to nothing: 16 is for activations, unless those cannot have it.
	wide := p.Activations.Bits > 8 || f.wide && slices.ContainsFunc(m.activations(id), func(s tqc.SlotID) bool { return m.Start.Set.Slot(s).Config.Bits > 8 })
	if w, ok := m.weight(id); ok && !wide {
		p.Weights = m.first(schemes.Weight, f.name, []tqc.SlotID{w}, func(s tqc.Scheme) bool { return m.weightCan(id, s) })
	}
	return p, !p.Empty()
}

// first is the first scheme of a format that slots can have, none where all of them have the format already.
func (m *Mixture) first(list []tqc.Scheme, format string, slots []tqc.SlotID, can func(tqc.Scheme) bool) tqc.Scheme {
	has := func(s tqc.SlotID) bool { return plainName(m.Start.Set.Slot(s).Config.FormatName()) == format }
	for _, s := range list {
		if plainName(s.Format()) == format && !slices.ContainsFunc(slots, has) && can(s) {
			return s
		}
	}
	return tqc.Scheme{}
}

// weightCan reports whether the weight of an operator may have a scheme that is not its own.
func (m *Mixture) weightCan(id graph.NodeID, s tqc.Scheme) bool {
	slot, ok := m.weight(id)
	if !ok || target.Can(m.Bound.SchemesOf(m.Start.Graph.Node(id)).Weight, s, "") != nil {
		return false
	}
	sl := m.Start.Set.Slot(slot)
	if own, err := tqc.SchemeOf(sl.Config); err != nil || own == s {
		return false
	}
	c, err := s.Apply(sl.Config)
	if err != nil {
		return false
	}
	c = target.AlongWeight(m.Start.Graph, id, sl.Index, c)
	return !c.Policy.Has(tqc.PerTensor) || !s.Channel && s.Group == 0
}

// activationsCan reports whether the tensors that an operator reads and writes may have a scheme that is not their own: every operator that
// shares one has to take it. Where an operator's tensors have to be of one type, none of them can have another one than its neighbours.
func (m *Mixture) activationsCan(id graph.NodeID, s tqc.Scheme) bool {
	if m.Bound.Export.OneType {
		return false
	}
	changes := false
	for _, slot := range m.activations(id) {
		for _, member := range m.members[m.Start.Set.Root(slot)] {
			sl := m.Start.Set.Slot(member)
			cell := &m.Start.Table.Slots[member]
			if sl.Weight || sl.State() == tqc.FP32 {
				continue
			}
			if sl.Config.Observer == tqc.ObserverFixed || cell.Selected("activations") || cell.Selected("scale") ||
				target.Can(m.Bound.SchemesOf(m.Start.Graph.Node(sl.Node)).Activation, s, "") != nil {
				return false
			}
			own, err := tqc.SchemeOf(sl.Config)
			changes = changes || err == nil && own != s
		}
	}
	return changes
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
	slices.SortStableFunc(list, func(a, b decision.Decision) int { return a.Activations.Bits - b.Activations.Bits })
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

// Derive is what follows from a choice, with the decisions that make it. Operators that have to leave integers with those around them get the
// precision of what they read.
func (m *Mixture) Derive(ctx context.Context, base []decision.Decision, goal string, choice []int) (*planning.Derived, []decision.Decision, error) {
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

// Measured are the units with errors and costs for the solver. analyze returns the losses of every operator, by output and part, when it alone has the format that it
// has in a derived plan. What a unit costs is what its operators cost, and in float the conversions at its borders.
func (m *Mixture) Measured(ctx context.Context, base []decision.Decision, what Costing,
	analyze func(ctx context.Context, format string, out *planning.Derived) (map[graph.NodeID][]float64, error)) ([]assign.Unit, error) {
	units := make([]assign.Unit, len(m.Units))
	for i, u := range m.Units {
		units[i] = assign.Unit{Name: m.Start.Graph.Node(u.Nodes[0]).Name, Options: make([]assign.Option, len(u.Options))}
		if n := len(u.Nodes); n > 1 {
			units[i].Name += fmt.Sprintf(" and %d more", n-1)
		}
		for k, o := range u.Options {
			units[i].Options[k].Name = o.Format
		}
	}
	fill := func(choice []int, first bool, format string, out *planning.Derived) error {
		var losses map[graph.NodeID][]float64
		if format != string(decision.FP32) {
			var err error
			if losses, err = analyze(ctx, format, out); err != nil {
				return err
			}
		}
		costs, err := analysis.NodeCosts(out.Graph, out.Set, what.Device)
		if err != nil {
			return err
		}
		for i, u := range m.Units {
			if k := choice[i]; k > 0 || first {
				o := &units[i].Options[k]
				for _, id := range u.Nodes {
					o.Parts = added(o.Parts, losses[id])
					for _, member := range m.Start.Set.Together(id, m.Bound.Order) {
						o.Cost += what.node(costs[member])
					}
					if u.Options[k].Each[0].Domain != "" {
						o.Cost += what.Conversions(m.D.Target, m.Elements(id))
					}
				}
			}
		}
		return nil
	}
	if err := fill(make([]int, len(m.Units)), true, "", m.Start); err != nil {
		return nil, err
	}
	for _, f := range m.formats {
		choice, some := m.all(f.name)
		if !some {
			if !slices.ContainsFunc(m.Units, func(u MixedUnit) bool { return u.Options[0].Format == f.name }) {
				m.note("format %s is left out: no operator can have it on %s", f.name, m.D.Target.Name)
			}
			continue
		}
		out, _, err := m.Derive(ctx, base, "", choice)
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", f.name, err)
		}
		if m.refuse != nil {
			if err := m.refuse(out); err != nil {
				m.note("format %s is left out: %v", f.name, err)
				for i, k := range choice {
					if k > 0 {
						m.Units[i].Options, units[i].Options = slices.Delete(m.Units[i].Options, k, k+1), slices.Delete(units[i].Options, k, k+1)
					}
				}
				continue
			}
		}
		if err := fill(choice, false, f.name, out); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// added adds a list to another; nil is one of zeros.
func added(to, list []float64) []float64 {
	if to == nil && list != nil {
		to = make([]float64, len(list))
	}
	for i, x := range list {
		to[i] += x
	}
	return to
}

// Elements is the size of the tensors that an operator, with what is fused to it, reads and writes; dimensions that are not known count as 1.
func (m *Mixture) Elements(id graph.NodeID) (n int64) {
	g := m.Start.Graph
	together := m.Start.Set.Together(id, m.Bound.Order)
	values := slices.Clone(g.Node(together[len(together)-1]).Outputs)
	for _, i := range target.DataInputs(g, id) {
		if v := g.Node(id).Input(i); g.Const(v) == nil {
			values = append(values, v)
		}
	}
	for _, v := range values {
		if target.IsFloat(g, v) {
			size := int64(1)
			for _, d := range g.Value(v).Shape {
				if d.Known() {
					size *= d.N
				}
			}
			n += size
		}
	}
	return n
}

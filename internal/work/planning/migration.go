package planning

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// migrate brings a plan of version 1 over: its options and the reasons of its domains (the one place where prose is read) become
// decisions, and so does every scheme and scale that these do not give, since version 1 could be edited. The numbers are the same
// afterwards, or it is an error.
func (c *Change) migrate(ctx context.Context) error {
	old := c.Planned.Plan
	next := &plan.Plan{Meta: old.Meta, Schemes: old.Schemes, Nodes: old.Nodes}
	next.Target = TargetEntry(c.Planned.Target)
	if c.Derivation.Stats != nil {
		var err error
		if next.Ranges, err = c.Derivation.Stats.RangesHash(); err != nil {
			return err
		}
	}
	next.Decide(c.options(old.Options)...)
	next.Also(c.choices()...)
	next.Also(c.reasons()...)
	for _, more := range []func(*Derived) ([]decision.Decision, error){c.otherDomains, c.otherSlots} {
		out, err := c.Derivation.Derive(ctx, next.Decisions)
		if err != nil {
			return err
		}
		list, err := more(out)
		if err != nil {
			return err
		}
		next.Also(list...)
	}
	out, err := c.Derivation.Derive(ctx, next.Decisions)
	if err != nil {
		return err
	}
	structure, number := Difference(c.Planned.Graph, c.Planned.Set, out.Set)
	if at := structure + number; at != "" {
		return fmt.Errorf("no decision can express its values at %s", at)
	}
	c.Planned.Plan, c.Planned.Set = next, out.Set
	c.Note("%s: converted from version 1 into %d decisions", c.Planned.File, len(next.Decisions))
	return nil
}

// options are the defaults of a plan of version 1.
func (c *Change) options(o *plan.Options) []decision.Decision {
	if c.Planned.Plan.Imported != nil {
		return []decision.Decision{{By: decision.ByImport}}
	}
	list := []decision.Decision{CalibrationDecision(o.Observers.Activation, o.PerTensor, o.ReduceRange),
		DispatcherDecision(c.Planned.Target, "", nil)}
	if w := o.Observers.Weight; w != c.Planned.Target.Weight.Observer && w != "" {
		list = append(list, decision.Decision{By: decision.ByCalibrate, Select: decision.Select{"*:weight"},
			Properties: decision.Properties{Observer: w}})
	}
	return list
}

// choices are what automatic choices chose.
func (c *Change) choices() (list []decision.Decision) {
	for id := range tqc.SlotID(c.Planned.Set.NumSlots()) {
		if sl := c.Planned.Set.Slot(id); sl.Observer != "" && c.Planned.Set.Root(id) == id && sl.State() == tqc.Activated {
			list = append(list, decision.Decision{By: decision.ByCalibrate,
				Select:     decision.Select{SlotSelector(c.Planned.Graph, c.Planned.Set, id)},
				Properties: decision.Properties{Observer: sl.Observer}})
		}
	}
	return list
}

// reasons are the decisions of users and searches, as the reasons of float nodes have them: "user: type:Softmax". What only went along
// ("user: goes with ...") follows from them.
func (c *Change) reasons() (list []decision.Decision) {
	at := map[string]int{}
	order, err := c.Planned.Graph.Order()
	if err != nil {
		return nil
	}
	for _, id := range order {
		who, what, _ := strings.Cut(c.Planned.Set.Why[id], ":")
		what = strings.TrimSpace(what)
		if c.Planned.Set.Domains[id] != tqc.DomainFP32 || who != dispatch.ByUser && who != dispatch.BySearch ||
			strings.HasPrefix(what, "goes with ") {
			continue
		}
		key := who + ":" + what
		i, ok := at[key]
		if !ok {
			i, at[key] = len(list), len(list)
			d := decision.Decision{By: decision.By(who), Properties: decision.Properties{Domain: decision.FP32}}
			if who == dispatch.BySearch {
				d.Goal = what
			}
			list = append(list, d)
		}
		list[i].Select = append(list[i].Select, c.Planned.Graph.Node(id).Name)
	}
	return list
}

// otherDomains decides the domains that were edited by hand.
func (c *Change) otherDomains(out *Derived) ([]decision.Decision, error) {
	var list []decision.Decision
	order, err := c.Planned.Graph.Order()
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		if c.Planned.Set.Domains[id] == out.Set.Domains[id] {
			continue
		}
		domain, ok := decision.DomainOf(c.Planned.Set.Domains[id])
		if !ok {
			return nil, fmt.Errorf("%q is %s", c.Planned.Graph.Node(id).Name, c.Planned.Set.Domains[id])
		}
		list = append(list, decision.Decision{By: decision.ByUser, Select: decision.Select{c.Planned.Graph.Node(id).Name},
			Properties: decision.Properties{Domain: domain}})
	}
	return list, nil
}

// otherSlots decides the schemes and scales that were edited by hand.
func (c *Change) otherSlots(out *Derived) ([]decision.Decision, error) {
	var list []decision.Decision
	for id := range tqc.SlotID(c.Planned.Set.NumSlots()) {
		have, derived := c.Planned.Set.Save(id), out.Set.Save(id)
		if have.State != tqc.Activated || have.Root != id || have.Config.SameScheme(derived.Config) && sameParams(have.Params, derived.Params) {
			continue
		}
		var p decision.Properties
		if !have.Config.SameScheme(derived.Config) {
			s, err := tqc.SchemeOf(have.Config)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", SlotName(c.Planned.Graph, c.Planned.Set, id), err)
			}
			if have.Weight && c.Derivation.Stats != nil && c.Planned.Graph.Node(c.Planned.Set.Slot(id).Node).Spec() != nil && weighted(c, id) {
				p.Weights = s
			} else {
				p.Activations = s
			}
		}
		if p.Scale, p.ZeroPoint = have.Params.Scale, have.Params.ZeroPoint; len(have.Params.Codes) > 0 {
			return nil, errors.New("integers of a bias were edited")
		}
		list = append(list, decision.Decision{By: decision.ByUser, Select: decision.Select{SlotSelector(c.Planned.Graph, c.Planned.Set, id)},
			Properties: p})
	}
	return list, nil
}

// weighted reports whether a slot is a weight, as decisions have it.
func weighted(c *Change, id tqc.SlotID) bool {
	sel, err := decision.ParseSelector("*:weight")
	if err != nil {
		return false
	}
	m, err := sel.Match(c.Planned.Graph, c.Planned.Set)
	if err != nil {
		return false
	}
	for _, s := range m.Slots {
		if s == id {
			return true
		}
	}
	return false
}

package qwb

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
func (c *change) migrate(ctx context.Context) error {
	old := c.p.Plan
	next := &plan.Plan{Meta: old.Meta, Schemes: old.Schemes, Nodes: old.Nodes}
	next.Target = targetEntry(c.p.Target)
	if c.d.Stats != nil {
		var err error
		if next.Ranges, err = c.d.Stats.RangesHash(); err != nil {
			return err
		}
	}
	next.Decide(c.options(old.Options)...)
	next.Also(c.choices()...)
	next.Also(c.reasons()...)
	for _, more := range []func(*derived) ([]decision.Decision, error){c.otherDomains, c.otherSlots} {
		out, err := c.d.Derive(ctx, next.Decisions)
		if err != nil {
			return err
		}
		list, err := more(out)
		if err != nil {
			return err
		}
		next.Also(list...)
	}
	out, err := c.d.Derive(ctx, next.Decisions)
	if err != nil {
		return err
	}
	structure, number := difference(c.p.Graph, c.p.Set, out.Set)
	if at := structure + number; at != "" {
		return fmt.Errorf("no decision can express its values at %s", at)
	}
	c.p.Plan, c.p.Set = next, out.Set
	c.note("%s: converted from version 1 into %d decisions", c.p.File, len(next.Decisions))
	return nil
}

// options are the defaults of a plan of version 1.
func (c *change) options(o *plan.Options) []decision.Decision {
	if c.p.Plan.Imported != nil {
		return []decision.Decision{{By: decision.ByImport}}
	}
	list := []decision.Decision{calibrated(o.Observers.Activation, o.PerTensor, o.ReduceRange), dispatched(c.p.Target, "", nil)}
	if w := o.Observers.Weight; w != c.p.Target.Weight.Observer && w != "" {
		list = append(list, decision.Decision{By: decision.ByCalibrate, Select: decision.Select{"*:weight"}, Properties: decision.Properties{Observer: w}})
	}
	return list
}

// choices are what automatic choices chose.
func (c *change) choices() (list []decision.Decision) {
	for id := range tqc.SlotID(c.p.Set.NumSlots()) {
		if sl := c.p.Set.Slot(id); sl.Observer != "" && c.p.Set.Root(id) == id && sl.State() == tqc.Activated {
			list = append(list, decision.Decision{By: decision.ByCalibrate, Select: decision.Select{slotSelector(c.p.Graph, c.p.Set, id)},
				Properties: decision.Properties{Observer: sl.Observer}})
		}
	}
	return list
}

// reasons are the decisions of users and searches, as the reasons of float nodes have them: "user: type:Softmax". What only went along
// ("user: goes with ...") follows from them.
func (c *change) reasons() (list []decision.Decision) {
	at := map[string]int{}
	order, err := c.p.Graph.Order()
	if err != nil {
		return nil
	}
	for _, id := range order {
		who, what, _ := strings.Cut(c.p.Set.Why[id], ":")
		what = strings.TrimSpace(what)
		if c.p.Set.Domains[id] != tqc.DomainFP32 || who != dispatch.ByUser && who != dispatch.BySearch || strings.HasPrefix(what, "goes with ") {
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
		list[i].Select = append(list[i].Select, c.p.Graph.Node(id).Name)
	}
	return list
}

// otherDomains decides the domains that were edited by hand.
func (c *change) otherDomains(out *derived) ([]decision.Decision, error) {
	var list []decision.Decision
	order, err := c.p.Graph.Order()
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		if c.p.Set.Domains[id] == out.Set.Domains[id] {
			continue
		}
		domain, ok := decision.DomainOf(c.p.Set.Domains[id])
		if !ok {
			return nil, fmt.Errorf("%q is %s", c.p.Graph.Node(id).Name, c.p.Set.Domains[id])
		}
		list = append(list, decision.Decision{By: decision.ByUser, Select: decision.Select{c.p.Graph.Node(id).Name}, Properties: decision.Properties{Domain: domain}})
	}
	return list, nil
}

// otherSlots decides the schemes and scales that were edited by hand.
func (c *change) otherSlots(out *derived) ([]decision.Decision, error) {
	var list []decision.Decision
	for id := range tqc.SlotID(c.p.Set.NumSlots()) {
		have, derived := c.p.Set.Save(id), out.Set.Save(id)
		if have.State != tqc.Activated || have.Root != id || have.Config.SameScheme(derived.Config) && sameParams(have.Params, derived.Params) {
			continue
		}
		var p decision.Properties
		if !have.Config.SameScheme(derived.Config) {
			s, err := tqc.SchemeOf(have.Config)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", slotName(c.p.Graph, c.p.Set, id), err)
			}
			if have.Weight && c.d.Stats != nil && c.p.Graph.Node(c.p.Set.Slot(id).Node).Spec() != nil && weighted(c, id) {
				p.Weights = s
			} else {
				p.Activations = s
			}
		}
		if p.Scale, p.ZeroPoint = have.Params.Scale, have.Params.ZeroPoint; len(have.Params.Codes) > 0 {
			return nil, errors.New("integers of a bias were edited")
		}
		list = append(list, decision.Decision{By: decision.ByUser, Select: decision.Select{slotSelector(c.p.Graph, c.p.Set, id)}, Properties: p})
	}
	return list, nil
}

// weighted reports whether a slot is a weight, as decisions have it.
func weighted(c *change, id tqc.SlotID) bool {
	sel, err := decision.ParseSelector("*:weight")
	if err != nil {
		return false
	}
	m, err := sel.Match(c.p.Graph, c.p.Set)
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

package lower

import (
	"errors"
	"fmt"
	"maps"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// formless says what about numbers of a config integer programs cannot compute with; nothing where they can.
func formless(cfg *tqc.Config) string {
	name := cfg.FormatName()
	switch {
	case cfg.Type == qmath.BookNF4:
		return "the code book " + name + ": its numbers do not lie evenly, so that no integers stand for them"
	case !cfg.Integer():
		return name + ": floating-point numbers, which integers do not stand for"
	case cfg.RunTime():
		return name + " with scales that are computed at run time: an integer program has fixed ones"
	case cfg.Policy.Has(tqc.PerGroup):
		return fmt.Sprintf("%s in groups of %d, each with a scale (per-group): their sums cannot be added as integers", name, cfg.GroupSize)
	}
	return ""
}

// slotFormless is formless of a slot that quantizes, in programs that simulate what has no integer form; elsewhere it is nothing, and what
// reads the slot reports it.
func (c *compiler) slotFormless(slot tqc.SlotID) string {
	if !c.Partial || slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes() {
		return ""
	}
	return formless(&c.set.Slot(slot).Config)
}

// formlessUnit says which input or output of a unit has no integer form. The weights of sums have rules of their own.
func (c *compiler) formlessUnit(u *unit) string {
	for _, id := range u.nodes {
		n := c.g.Node(id)
		for i := range n.Inputs {
			if why := c.slotFormless(c.set.Input(id, i)); why != "" && !(u.family == &linearFamily && i == 1 && c.g.Const(n.Inputs[1]) != nil) {
				return fmt.Sprintf("input %d is %s", i, why)
			}
		}
		for i := range n.Outputs {
			if why := c.slotFormless(c.set.Output(id, i)); why != "" {
				return fmt.Sprintf("output %d is %s", i, why)
			}
		}
	}
	return ""
}

// fakeOf is what a simulated step does to a real input or output: the format of a slot whose numbers have no integer form, nil for others.
func (c *compiler) fakeOf(slot tqc.SlotID) *Fake {
	if c.slotFormless(slot) == "" {
		return nil
	}
	f := &Fake{Config: c.set.Slot(slot).Config}
	if p := c.set.Params(slot); p != nil {
		f.Params = *p
	}
	return f
}

// noForm is an error of a unit that its profile has no integer form for; programs of CompilePartial simulate it.
type noForm struct {
	head graph.NodeID
	err  error
}

func (e *noForm) Error() string { return e.err.Error() }
func (e *noForm) Unwrap() error { return e.err }

// refuse is fail for what a profile has no form for.
func (c *compiler) refuse(u *unit, format string, args ...any) error {
	return c.g.ErrorAt(stage, u.head(), &noForm{u.head(), fmt.Errorf(format, args...)})
}

// again returns refusals with the unit that an error names; false where it names none that is not among them.
func again(refusals map[graph.NodeID]string, err error) (map[graph.NodeID]string, bool) {
	var e *noForm
	if !errors.As(err, &e) || refusals[e.head] != "" {
		return nil, false
	}
	more := map[graph.NodeID]string{e.head: e.err.Error()}
	maps.Copy(more, refusals)
	return more, true
}

package calib

import (
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// coarser is how many times the scale of a sum that of an addend may be. ONNX Runtime 1.32 adds codes times the quotient of the scales in
// float32: from 2^16 on it is a step off, from 2^24 on the other addend is lost. LiteRT does not open such a file.
const coarser = 1 << 16

// addends limits the ranges of addends that are far coarser than the sum, where an observer has cut off what is large in it: what lies
// farther out than the whole sum and the other addend together saturates the sum in any case.
func (r *renderer) addends() error {
	for _, id := range r.order {
		n := r.g.Node(id)
		if n.Op != "Add" && n.Op != "Sub" || !n.IsONNX() || len(n.Inputs) != 2 || r.set.Domains[id] != tqc.DomainInt {
			continue
		}
		y, scale, ok := r.reach(r.set.Output(id, 0))
		for i := range 2 {
			slot := r.set.Input(id, i)
			x, own, is := r.reach(slot)
			other, _, known := r.reach(r.set.Input(id, 1-i))
			if !ok || !is || !known || own < coarser*scale || r.set.Root(slot) != slot || len(r.set.Group(slot)) > 1 {
				continue
			}
			if err := r.narrow(slot, x, within(n.Op, i, y, other)); err != nil {
				return r.at(r.set.Slot(slot), err)
			}
		}
	}
	return nil
}

// within is the range beyond which operand i leaves the range of the result, whatever the other operand is.
func within(op string, i int, y, other observers.Range) observers.Range {
	switch {
	case op == "Add":
		return observers.Range{Lo: y.Lo - other.Hi, Hi: y.Hi - other.Lo}
	case i == 0:
		return observers.Range{Lo: y.Lo + other.Lo, Hi: y.Hi + other.Hi}
	}
	return observers.Range{Lo: other.Lo - y.Hi, Hi: other.Hi - y.Lo}
}

// reach is the range of the one grid of a slot, and its scale; false where there is no such grid.
func (r *renderer) reach(id tqc.SlotID) (observers.Range, float64, bool) {
	if id == tqc.NoSlot {
		return observers.Range{}, 0, false
	}
	root := r.set.Root(id)
	p, c := r.set.Params(root), &r.set.Slot(root).Config
	if p == nil || len(p.Scale) != 1 || len(p.ZeroPoint) != 1 || !c.Integer() {
		return observers.Range{}, 0, false
	}
	s, zero := float64(p.Scale[0]), float64(p.ZeroPoint[0])
	return observers.Range{Lo: s * (float64(c.QMin) - zero), Hi: s * (float64(c.QMax) - zero)}, s, true
}

// narrow gives a slot the part of its range that is within another.
func (r *renderer) narrow(id tqc.SlotID, own, to observers.Range) error {
	to = observers.Range{Lo: min(max(own.Lo, to.Lo), 0), Hi: max(min(own.Hi, to.Hi), 0)}
	p, _, err := scales([]observers.Range{to}, r.set.Slot(id).Config, 0)
	if err != nil {
		return err
	}
	for i := range r.out.Choices {
		if c := &r.out.Choices[i]; c.Slot == id {
			c.Range = to
		}
	}
	return r.set.Render(id, p)
}

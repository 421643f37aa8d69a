package quantizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Effects say what became of decisions about slots.
type Effects struct {
	// Used marks, by the number of a decision counted from 1, those that something follows.
	Used map[int]bool
	// Moved says of slots that were selected by themselves whose scale the decision went to: the slot that governs them.
	Moved []Moved
	// Fixed are the scales that were decided, by the slots that have them.
	Fixed []Fixed
}

// Fixed is a scale that was decided.
type Fixed struct {
	Number int // of the decision, counted from 1
	Slot   tqc.SlotID
	Scale  []float32
}

// Moved is a decision about a slot that another one governs.
type Moved struct {
	Number   int // of the decision, counted from 1
	From, To tqc.SlotID
}

// decided brings the properties of slots into a configuration.
type decided struct {
	g     *graph.Graph
	b     *target.Bound
	t     *decision.Table
	cells []decision.Cell // by SlotID: what is decided about the group that the slot shares its scale with
	out   *Effects
	// signed are slots that a product wants symmetric and signed, which only a decision that selects them or their operator changes.
	signed map[tqc.SlotID]tqc.Config
}

// Properties of activations that the whole group of slots with one scale shares.
var shared = []string{"activations", "observer", "scale", "zero_point", "divisor", "freeze"}

// gather joins what is decided about the slots that share a scale. A slot that was selected by itself and borrows its scale from
// another is an error.
func (d *decided) gather(set *tqc.Set) error {
	d.cells = make([]decision.Cell, set.NumSlots())
	for id := range tqc.SlotID(set.NumSlots()) {
		sl, root := set.Slot(id), set.Root(id)
		if sl.State() == tqc.FP32 {
			continue
		}
		own := &d.t.Slots[id]
		if sl.Weight && root == id {
			d.cells[id] = *own
			continue
		}
		if n := d.t.Chosen[id]; n > 0 && root != id {
			if st := sl.State(); st == tqc.Passive || st == tqc.PassiveInit {
				return d.t.Fail(n, fmt.Errorf("%s is PASSIVE: it takes the scale of %s; decide about that one", d.place(set, id), d.place(set, root)))
			}
			d.out.Moved = append(d.out.Moved, Moved{Number: n, From: id, To: root})
		}
		if sl.State() != tqc.PassiveInit && sl.State() != tqc.Passive {
			d.cells[root].Later(own, shared...)
		}
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		if r := set.Root(id); r != id {
			d.cells[id].Later(&d.cells[r], shared...)
		}
	}
	return nil
}

// alignments finds by NodeID which tensors of the operators that run on integers share a scale.
// One that the operator cannot have is an error.
func (d *decided) alignments(domains []tqc.Domain) ([]target.Align, error) {
	align := make([]target.Align, d.g.NumNodes())
	for _, id := range d.g.Nodes() {
		if domains[id] != tqc.DomainInt || d.b.Ops[id] == nil {
			continue
		}
		align[id] = d.b.Ops[id].Align
		cell := &d.t.Nodes[id]
		if cell.Align == "" {
			continue
		}
		by := cell.By("align")
		if err := align[id].UnmarshalText([]byte(cell.Align)); err != nil {
			return nil, d.t.Fail(by, err)
		}
		if err := d.b.CanAlign(id, align[id]); err != nil {
			return nil, d.t.Fail(by, fmt.Errorf("%s: %w", d.g.Node(id).Name, err))
		}
	}
	return align, nil
}

// aligned notes the decisions by which tensors share a scale, or do so no more.
func (d *decided) aligned(set *tqc.Set, align []target.Align) {
	for _, id := range d.g.Nodes() {
		by := d.t.Nodes[id].By("align")
		if by == 0 || set.Domains[id] != tqc.DomainInt || d.b.Ops[id] == nil || d.b.Ops[id].Role != target.Arithmetic {
			continue
		}
		if align[id] == target.AlignNone || d.shares(set, id, align[id]) {
			d.out.Used[by] = true
		}
	}
}

// shares reports whether tensors of a node have the common scale that its alignment is about.
func (d *decided) shares(set *tqc.Set, id graph.NodeID, align target.Align) bool {
	root := func(s tqc.SlotID) tqc.SlotID {
		if s == tqc.NoSlot || set.Slot(s).State() == tqc.FP32 {
			return tqc.NoSlot
		}
		return set.Root(s)
	}
	var seen []tqc.SlotID // what the scale has to be found among
	if out := root(set.Output(id, 0)); align != target.AlignLarge && out != tqc.NoSlot {
		seen = append(seen, out)
	}
	for k, i := range d.b.DataInputs(id) {
		in := root(set.Input(id, i))
		if slices.Contains(seen, in) {
			return true
		}
		if align == target.AlignLarge && in != tqc.NoSlot {
			seen = append(seen, in)
		} else if align == target.AlignInput && k == 0 {
			return false
		}
	}
	return false
}

func (d *decided) place(set *tqc.Set, id tqc.SlotID) string {
	sl := set.Slot(id)
	return d.g.Node(sl.Node).Name + ":" + decision.At(sl.Kind, sl.Index)
}

// used notes the decision behind a property.
func (d *decided) used(c *decision.Cell, name string) int {
	n := c.By(name)
	if n > 0 {
		d.out.Used[n] = true
	}
	return n
}

// adapt is the policy of a slot under what is decided about it.
func (d *decided) adapt(set *tqc.Set, s tqc.SlotID, c tqc.Config) (tqc.Config, error) {
	cell, sl := &d.cells[s], set.Slot(s)
	n := d.g.Node(sl.Node)
	if sl.Weight && c.Observer == tqc.ObserverNone {
		return c, nil // a bias
	}
	if sl.Weight && d.b.Ops[sl.Node] != nil && d.b.Ops[sl.Node].Role == target.Weighted {
		return d.weight(cell, sl, n, c)
	}
	_, signed := d.signed[s]
	if by := d.used(cell, "activations"); by > 0 && (!signed || cell.Selected("activations") || cell.Activations.AtRunTime()) {
		if err := target.Can(d.b.SchemesOf(n).Activation, cell.Activations, d.b.Name+": activations of "+n.Op); err != nil {
			return c, d.t.Fail(by, fmt.Errorf("%s: %w", d.place(set, s), err))
		}
		prescribed := c
		if c.Observer == tqc.ObserverFixed && !cell.Activations.AtRunTime() {
			own, err := tqc.SchemeOf(c)
			if own.Unsigned = cell.Activations.Unsigned; err != nil || own != cell.Activations { // the sign alone moves the lowest integer
				return c, d.t.Fail(by, fmt.Errorf("%s: %s prescribes scale %g and the integers that go with it", d.place(set, s), d.b.Name,
					c.FixedScale))
			}
		}
		var err error
		if c, err = cell.Activations.Apply(c); err != nil {
			return c, d.t.Fail(by, err)
		}
		if prescribed.Observer == tqc.ObserverFixed && !cell.Activations.AtRunTime() {
			c.Observer, c.FixedScale, c.FinestScale = prescribed.Observer, prescribed.FixedScale, prescribed.FinestScale
			c.FixedZeroPoint = c.QMin + prescribed.FixedZeroPoint - prescribed.QMin
		}
		if c = c.OfActivation(); sl.Kind == tqc.Input {
			c = target.AlongActivation(d.g, sl.Node, sl.Index, c)
		}
	}
	if !c.NeedsScale() {
		for _, name := range []string{"observer", "scale", "divisor", "freeze"} {
			if by := cell.By(name); by > 0 && d.t.Chosen[s] == by {
				return c, d.t.Fail(by, fmt.Errorf("%s: scales of %s are computed at run time", d.place(set, s), schemeName(c)))
			}
		}
		return c, nil
	}
	if c.Observer == tqc.ObserverFixed {
		for _, name := range []string{"observer", "scale", "divisor"} {
			if by := cell.By(name); by > 0 && d.t.Chosen[s] == by {
				return c, d.t.Fail(by, fmt.Errorf("%s: %s prescribes scale %g there", d.place(set, s), d.b.Name, c.FixedScale))
			}
		}
		return c, nil
	}
	if by := cell.By("divisor"); by > 0 && d.t.Chosen[s] == by && !c.Policy.Has(tqc.Symmetric) {
		return c, d.t.Fail(by, fmt.Errorf("%s: a divisor is for symmetric scales, and this is %s; %s can have %s there", d.place(set, s),
			schemeName(c), d.b.Name, symmetricOf(d.b.SchemesOf(n).Activation)))
	}
	d.observe(cell, sl, &c)
	return c, nil
}

func schemeName(c tqc.Config) string {
	if s, err := tqc.SchemeOf(c); err == nil {
		return s.String()
	}
	return c.Policy.String()
}

// symmetricOf lists the symmetric ones of some schemes.
func symmetricOf(list []tqc.Scheme) string {
	var names []string
	for _, s := range list {
		if !s.Asymmetric {
			names = append(names, "activations="+s.String())
		}
	}
	if len(names) == 0 {
		return "no symmetric scheme"
	}
	return strings.Join(names, ", ")
}

// observe fills in how the range is found. Isotone calibration is about the order of a Softmax's results: as a default it is for those
// only.
func (d *decided) observe(cell *decision.Cell, sl *tqc.Slot, c *tqc.Config) {
	switch {
	case cell.Observer == "":
	case sl.Weight && !cell.Selected("observer"):
	case cell.Observer == tqc.ObserverIsotone && !cell.Selected("observer") && !d.softmax(sl.Value):
	default:
		c.Observer = cell.Observer
		d.used(cell, "observer")
	}
	if cell.Divisor != nil && c.Policy.Has(tqc.Symmetric) {
		c.Divisor = *cell.Divisor
		d.used(cell, "divisor")
	}
}

func (d *decided) softmax(v graph.ValueID) bool {
	p := d.g.Producer(v)
	return p != graph.NoNode && d.g.Node(p).Op == "Softmax"
}

// weight is the policy of a weight.
func (d *decided) weight(cell *decision.Cell, sl *tqc.Slot, n *graph.Node, c tqc.Config) (tqc.Config, error) {
	if cell.ReduceRange != nil && !*cell.ReduceRange && d.b.Reduces(d.g, sl.Node) {
		c.QMin, c.QMax = d.b.Weight.QMin, d.b.Weight.QMax
	} else if cell.ReduceRange != nil && *cell.ReduceRange {
		r := d.b.ReducedWeight
		if r[0] == r[1] {
			return c, d.t.Fail(d.used(cell, "reduce_range"), fmt.Errorf("%s has no reduced range", d.b.Name))
		}
		c.QMin, c.QMax = r[0], r[1]
	}
	d.used(cell, "reduce_range")
	if cell.PerTensor != nil && *cell.PerTensor {
		c.Policy, c.Axis, c.GroupSize = c.Policy&^(tqc.PerChannel|tqc.PerGroup)|tqc.PerTensor, 0, 0
	}
	d.used(cell, "per_tensor")
	if by := d.used(cell, "weights"); by > 0 {
		if err := target.Can(d.b.SchemesOf(n).Weight, cell.Weights, d.b.Name+": weights of "+n.Op); err != nil {
			return c, d.t.Fail(by, fmt.Errorf("%s: %w", n.Name, err))
		}
		var err error
		if c, err = cell.Weights.Apply(c); err != nil {
			return c, d.t.Fail(by, err)
		}
		if c = target.AlongWeight(d.g, sl.Node, sl.Index, c); c.Policy.Has(tqc.PerTensor) && (cell.Weights.Channel || cell.Weights.Group > 0) {
			return c, d.t.Fail(by, fmt.Errorf("%s: %s has no axis along which the scales of %s could lie", n.Name, n.Op, cell.Weights))
		}
	}
	d.observe(cell, sl, &c)
	return c, nil
}

// finish renders the scales that are decided, and holds the slots that share a scale to one policy.
func (d *decided) finish(set *tqc.Set) error {
	d.out.Moved = nil
	before := d.cells
	if err := d.gather(set); err != nil { // schemes may have joined or parted groups
		return err
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if sl.State() == tqc.FP32 || sl.Config.Observer == tqc.ObserverNone {
			continue
		}
		root := set.Slot(set.Root(id))
		if c := &d.cells[root.ID]; !sl.Weight && sl.Config.Observer != tqc.ObserverFixed && before[id].By("observer") != c.By("observer") {
			d.observe(c, root, &sl.Config)
		}
		if root.ID != id || len(d.cells[id].Scale)+len(d.cells[id].ZeroPoint) == 0 {
			if f := d.cells[id].Freeze; root.ID == id && f != nil && *f {
				return d.t.Fail(d.cells[id].By("freeze"), fmt.Errorf("%s: freeze needs the scale that is frozen", d.place(set, id)))
			}
			continue
		}
		if err := d.render(set, sl); err != nil {
			return err
		}
	}
	return nil
}

// render gives a root the scale that is decided.
func (d *decided) render(set *tqc.Set, sl *tqc.Slot) error {
	cell := &d.cells[sl.ID]
	by := max(d.used(cell, "scale"), d.used(cell, "zero_point"))
	d.used(cell, "freeze")
	fail := func(err error) error { return d.t.Fail(by, fmt.Errorf("%s: %w", d.place(set, sl.ID), err)) }
	c := &sl.Config
	p := tqc.Params{Scale: slices.Clone(cell.Scale), ZeroPoint: slices.Clone(cell.ZeroPoint)}
	want, known := tqc.NumScales(d.g.Value(sl.Value).Shape, c)
	switch {
	case len(p.Scale) == 0:
		return fail(errors.New("a zero point without a scale"))
	case known && want != int64(len(p.Scale)):
		return fail(fmt.Errorf("%d scales, wanted %d for %s", len(p.Scale), want, c.Policy))
	case len(p.ZeroPoint) == 0 && !(c.Policy.Has(tqc.Symmetric) && c.QMin < 0):
		return fail(errors.New("the scheme has zero points: decide zero_point with the scale"))
	case len(p.ZeroPoint) == 0:
		p.ZeroPoint = make([]int32, len(p.Scale))
	case len(p.ZeroPoint) == 1:
		p.ZeroPoint = slices.Repeat(p.ZeroPoint, len(p.Scale))
	}
	if err := set.Render(sl.ID, p); err != nil {
		return fail(err)
	}
	d.out.Fixed = append(d.out.Fixed, Fixed{Number: by, Slot: sl.ID, Scale: p.Scale})
	return nil
}

// Scales gives the slots of a set that has scales already those that are decided; nothing else about slots is looked at.
func Scales(g *graph.Graph, set *tqc.Set, t *decision.Table, effects *Effects) error {
	d := &decided{g: g, t: t, out: effects}
	if err := d.gather(set); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		if c := &d.cells[id]; set.Root(id) == id && set.Slot(id).State() != tqc.FP32 && len(c.Scale)+len(c.ZeroPoint) > 0 {
			if err := d.render(set, set.Slot(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

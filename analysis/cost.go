package analysis

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// CostOf adds up what a configured graph costs for one sample. Open dimensions count as 1.
//
// A multiply-accumulate is of the format in which its two factors can be multiplied: that of both, of integers the wider one (int4 weights
// with uint8 activations are computed in int8), else fp32; so are integers that the target t multiplies in float (nil: none). A constant
// has the bytes of its codes, scales and zero points; one that several operators read in one format counts once. A device adds the time
// (see Device); nil leaves it out. It is an error that names the operator if the device has no speed for a format.
func CostOf(g *graph.Graph, set *tqc.Set, t *target.Target, d *Device) (Cost, error) {
	c, nodes, err := costs(g, set, t, d)
	if err != nil {
		return Cost{}, err
	}
	cost := Cost{MACs: map[string]int64{}, Bytes: map[string]int64{}}
	seconds := 0.0
	for _, n := range nodes {
		if n.MACs > 0 {
			cost.MACs[n.Arithmetic] += n.MACs
		}
		for _, b := range n.constants {
			cost.Bytes[b.format] += b.bytes
		}
		seconds += n.Seconds
	}
	for _, b := range dispatch.BordersOf(g, c.order, set.Domains) {
		cost.Borders++
		cost.Converted += b.Elements
	}
	if d != nil {
		seconds += c.conversions(d)
		cost.Seconds, cost.Device = &seconds, d.SHA256
	}
	return cost, nil
}

// NodeCost is what one operator adds to a Cost, conversions excepted.
type NodeCost struct {
	MACs       int64
	Arithmetic string  // the format of the multiply-accumulates, empty where there are none
	Bytes      int64   // of constants that no operator before it reads in the same format
	Seconds    float64 // with what is computed together with it; 0 without a device

	constants []storedConstant
}

// Work is the multiply-accumulates of the operator weighted as by Cost.Work.
func (n NodeCost) Work() float64 {
	f, _ := formatNamed(n.Arithmetic)
	return float64(n.MACs) * float64(f.bits) / 8
}

type storedConstant struct {
	format string
	bytes  int64
}

// NodeCosts returns what CostOf adds up, by NodeID.
func NodeCosts(g *graph.Graph, set *tqc.Set, t *target.Target, d *Device) ([]NodeCost, error) {
	_, list, err := costs(g, set, t, d)
	return list, err
}

func costs(g *graph.Graph, set *tqc.Set, t *target.Target, d *Device) (*costing, []NodeCost, error) {
	order, err := g.Order()
	if err != nil {
		return nil, nil, err
	}
	c := &costing{g: g, set: set, order: order, counted: map[constant]bool{}}
	if t != nil {
		if c.bound, err = t.Bind(g); err != nil {
			return nil, nil, err
		}
	}
	list := make([]NodeCost, g.NumNodes())
	for _, id := range order {
		n := &list[id]
		if n.MACs, _ = g.MACsAtLeast(id); n.MACs > 0 {
			n.Arithmetic = c.arithmetic(id).name
		}
		for i := range g.Node(id).Inputs {
			if b := c.constant(id, i); b.bytes > 0 {
				n.constants = append(n.constants, b)
				n.Bytes += b.bytes
			}
		}
	}
	if d == nil {
		return c, list, nil
	}
	for _, grp := range c.groups() {
		if list[grp[0]].Seconds, err = c.seconds(grp, d); err != nil {
			return nil, nil, g.ErrorAt("cost", grp[0], err)
		}
	}
	return c, list, nil
}

// Work is the multiply-accumulates weighted by the width of their format: one in int8 is 1, in int16 and fp16 2, in fp32 4, in int4 a half.
func (c Cost) Work() (work float64) {
	for _, f := range numberFormats {
		work += float64(c.MACs[f.name]) * float64(f.bits) / 8
	}
	return work
}

// Integer is the share of the multiply-accumulates that run on integers; 0 where there are none.
func (c Cost) Integer() float64 {
	var integer, all int64
	for _, f := range numberFormats {
		if all += c.MACs[f.name]; f.integer {
			integer += c.MACs[f.name]
		}
	}
	return float64(integer) / float64(max(all, 1))
}

// TotalBytes is the size of all constants.
func (c Cost) TotalBytes() (bytes int64) {
	for _, n := range c.Bytes {
		bytes += n
	}
	return bytes
}

// numberFormat is a format of numbers as costs tell them apart: signs and scales do not matter.
type numberFormat struct {
	name    string
	bits    int
	integer bool
}

// numberFormats lists all that tensors can have, the narrow ones of a kind first.
var numberFormats = func() (list []numberFormat) {
	for bits := 2; bits <= 16; bits++ {
		list = append(list, numberFormat{fmt.Sprintf("int%d", bits), bits, true})
	}
	for _, t := range qmath.NumberTypes() {
		list = append(list, numberFormat{t.String(), qmath.FormatOf(t).Bits, false})
	}
	return append(list, numberFormat{"fp16", 16, false}, numberFormat{"bf16", 16, false}, numberFormat{"tf32", 32, false},
		numberFormat{"fp32", 32, false})
}()

func formatNamed(name string) (numberFormat, bool) {
	i := slices.IndexFunc(numberFormats, func(f numberFormat) bool { return f.name == name })
	if i < 0 {
		return numberFormat{}, false
	}
	return numberFormats[i], true
}

// costing adds up.
type costing struct {
	g       *graph.Graph
	set     *tqc.Set
	bound   *target.Bound // nil without a target
	order   []graph.NodeID
	counted map[constant]bool
}

// constant is a constant in one format.
type constant struct {
	value  graph.ValueID
	format string
	scheme tqc.Scheme
}

// format is that of the tensor at an input or output of a node.
func (c *costing) format(id graph.NodeID, slot tqc.SlotID) numberFormat {
	if slot != tqc.NoSlot && c.set.Domains[id].Quantizes() && c.set.Slot(slot).State() != tqc.FP32 {
		cfg := &c.set.Slot(slot).Config
		if cfg.Integer() {
			return numberFormat{fmt.Sprintf("int%d", cfg.Bits), cfg.Bits, true}
		}
		return numberFormat{cfg.FormatName(), cfg.Bits, false}
	}
	f, _ := formatNamed(c.set.Domains[id].Precision().String())
	return f
}

// arithmetic is the format in which a node multiplies its first two factors.
func (c *costing) arithmetic(id graph.NodeID) numberFormat {
	var factors []numberFormat
	for _, i := range target.DataInputs(c.g, id) {
		if len(factors) < 2 {
			factors = append(factors, c.format(id, c.set.Input(id, i)))
		}
	}
	fp32, _ := formatNamed("fp32")
	if len(factors) < 2 {
		return fp32
	}
	a, b := factors[0], factors[1]
	switch {
	case c.bound != nil && (a.integer || b.integer) && !c.bound.MultipliesIntegers(id, c.set):
		return fp32
	case a == b:
		return a
	case a.integer && b.integer && a.bits > b.bits:
		return a
	case a.integer && b.integer:
		return b
	}
	return fp32
}

// constant returns constant input i of a node; no bytes where it is no constant of numbers, or counted already.
func (c *costing) constant(id graph.NodeID, i int) storedConstant {
	v := c.g.Node(id).Input(i)
	if v == graph.NoValue || c.g.Const(v) == nil || c.g.Value(v).DType != tensor.Float32 {
		return storedConstant{}
	}
	f, bits, scheme := c.stored(id, i)
	key := constant{v, f.name, scheme}
	if c.counted[key] {
		return storedConstant{}
	}
	c.counted[key] = true
	return storedConstant{f.name, (bits + 7) / 8}
}

// stored is how a constant input of a node is stored, and its bits with scales and zero points.
func (c *costing) stored(id graph.NodeID, i int) (f numberFormat, bits int64, scheme tqc.Scheme) {
	slot := c.set.Input(id, i)
	f = c.format(id, slot)
	n := c.elements(c.g.Node(id).Input(i))
	bits = n * int64(f.bits)
	if slot == tqc.NoSlot || !c.set.Domains[id].Quantizes() || c.set.Slot(slot).State() == tqc.FP32 {
		return f, bits, scheme
	}
	sl := c.set.Slot(slot)
	cfg := &sl.Config
	scheme, _ = tqc.SchemeOf(*cfg)
	if cfg.Integer() && cfg.Bits == 32 {
		return f, bits, scheme // a bias: its scale is that of its operator's factors
	}
	scales, known := tqc.NumScales(c.g.Value(sl.Value).Shape, cfg)
	if !known {
		return f, bits, scheme
	}
	switch cfg.Blocks {
	case tqc.FreeScales:
		bits += 32 * scales
	case tqc.NV:
		bits += 8*scales + 32
	default:
		bits += 8 * scales
	}
	if cfg.Policy.Has(tqc.Asymmetric) {
		bits += scales * int64(cfg.Bits)
	}
	return f, bits, scheme
}

// elements is the size of a value; dimensions that are not known count as 1.
func (c *costing) elements(v graph.ValueID) int64 {
	n := int64(1)
	for _, d := range c.g.Value(v).Shape {
		if d.Known() {
			n *= d.N
		}
	}
	return n
}

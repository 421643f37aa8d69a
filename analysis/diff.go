package analysis

import (
	"fmt"
	"math"
	"strconv"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Configured is a graph with the configuration of its tensors: one side of a comparison.
type Configured struct {
	Graph *graph.Graph
	Set   *tqc.Set
}

// Diff compares two configured graphs, as a rule of one network: where operators run, and of every tensor state, scheme, scale,
// zero point and, of parameters, integers. Operators are matched as Match does. Differences come in the order of a,
// what only b has at the end.
func Diff(a, b Configured) (*DiffResult, error) {
	d := &differ{a: a, b: b, res: &DiffResult{Differences: []Difference{}}}
	pairs, err := d.match()
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	for _, p := range pairs {
		if err := d.node(p[0], p[1]); err != nil {
			return nil, a.Graph.ErrorAt("diff", p[0], err)
		}
	}
	d.res.Equal = len(d.res.Differences) == 0
	return d.res, nil
}

type differ struct {
	a, b Configured
	res  *DiffResult
}

// match pairs the nodes of both sides and reports those that only one has.
func (d *differ) match() (pairs [][2]graph.NodeID, err error) {
	m, err := Match(d.a.Graph, d.b.Graph)
	if err != nil {
		return nil, err
	}
	d.res.ByPlace = m.ByPlace
	for _, id := range m.orderA {
		if m.ToB[id] == graph.NoNode {
			d.lone(d.a.Graph.Node(id), DiffMissing)
		} else {
			pairs = append(pairs, [2]graph.NodeID{id, m.ToB[id]})
		}
	}
	for _, id := range m.orderB {
		if m.ToA[id] == graph.NoNode {
			d.lone(d.b.Graph.Node(id), DiffExtra)
		}
	}
	return pairs, nil
}

func (d *differ) lone(n *graph.Node, what DiffKind) {
	if what == DiffMissing {
		d.res.Missing++
	} else {
		d.res.Extra++
	}
	d.res.Differences = append(d.res.Differences, Difference{Node: n.Name, Op: n.Op, What: what})
}

func (d *differ) node(a, b graph.NodeID) error {
	n := d.a.Graph.Node(a)
	d.res.Nodes++
	diff := Difference{Node: n.Name, Op: n.Op}
	if x, y := d.a.Set.Domains[a], d.b.Set.Domains[b]; x != y {
		d.res.Domains++
		d.say(diff, DiffDomain, x.String(), y.String())
	}
	for _, side := range []struct {
		kind tqc.Kind
		a, b []tqc.SlotID
	}{{tqc.Input, d.a.Set.Inputs(a), d.b.Set.Inputs(b)}, {tqc.Output, d.a.Set.Outputs(a), d.b.Set.Outputs(b)}} {
		for i := range max(len(side.a), len(side.b)) {
			diff.At = side.kind.String() + strconv.Itoa(i)
			if err := d.slot(diff, slotAt(side.a, i), slotAt(side.b, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func slotAt(list []tqc.SlotID, i int) tqc.SlotID {
	if i < len(list) {
		return list[i]
	}
	return tqc.NoSlot
}

func (d *differ) say(diff Difference, what DiffKind, a, b string) {
	diff.What, diff.A, diff.B = what, a, b
	if diff.Follows {
		d.res.Following++
	}
	d.res.Differences = append(d.res.Differences, diff)
}

// slot compares one input or output. What follows from a difference in state is not reported again.
func (d *differ) slot(diff Difference, a, b tqc.SlotID) error {
	x, y := tqc.FP32, tqc.FP32
	if a != tqc.NoSlot {
		x = d.a.Set.Slot(a).State()
	}
	if b != tqc.NoSlot {
		y = d.b.Set.Slot(b).State()
	}
	if x == tqc.FP32 && y == tqc.FP32 {
		return nil
	}
	d.res.Slots++
	if x != y {
		d.res.States++
		d.say(diff, DiffState, x.String(), y.String())
	}
	if !x.Quantizes() && !y.Quantizes() || x == tqc.FP32 || y == tqc.FP32 {
		return nil
	}
	p, q := d.a.Set.Slot(a).Config, d.b.Set.Slot(b).Config
	if !p.SameScheme(q) {
		d.res.Schemes++
		d.say(diff, DiffScheme, policyText(p), policyText(q))
	}
	diff.Follows = x == tqc.Passive && y == tqc.Passive
	scales := d.res.Scales
	d.params(diff, d.a.Set.Params(a), d.b.Set.Params(b))
	diff.Follows = diff.Follows && d.res.Scales > scales
	return d.codes(diff, a, b)
}

// policyText is the scheme of a policy with its range, and what else may differ where schemes are equal: axis, divisor, rounding.
func policyText(c tqc.Config) string {
	name := c.Policy.String()
	if scheme, err := tqc.SchemeOf(c); err == nil {
		name = scheme.String()
	}
	s := fmt.Sprintf("%s %d..%d", name, c.QMin, c.QMax)
	if c.Policy.Has(tqc.PerChannel) || c.Policy.Has(tqc.PerGroup) {
		s += fmt.Sprintf(" axis %d", c.Axis)
	}
	if c.Divisor != 0 {
		s += fmt.Sprintf(" divisor %g", c.Divisor)
	}
	if c.Rounding != qmath.HalfEven {
		s += " rounding " + c.Rounding.String()
	}
	return s
}

// params compares scales and zero points.
func (d *differ) params(diff Difference, p, q *tqc.Params) {
	if len(p.Scale) != len(q.Scale) {
		d.res.Scales++
		d.say(diff, DiffScale, fmt.Sprintf("%d scales", len(p.Scale)), fmt.Sprintf("%d scales", len(q.Scale)))
		return
	}
	scale, zero := diff, diff
	scale.Of, zero.Of = len(p.Scale), len(p.Scale)
	at, zat := 0, 0
	for i := range p.Scale {
		if p.Scale[i] != q.Scale[i] {
			scale.Count++
			if r := math.Abs(float64(q.Scale[i])/float64(p.Scale[i]) - 1); r > scale.Largest {
				scale.Largest, at = r, i
			}
		}
		if p.ZeroPoint[i] != q.ZeroPoint[i] {
			zero.Count++
			if r := math.Abs(float64(q.ZeroPoint[i]) - float64(p.ZeroPoint[i])); r > zero.Largest {
				zero.Largest, zat = r, i
			}
		}
	}
	if scale.Count > 0 {
		d.res.Scales++
		d.say(scale, DiffScale, fmt.Sprintf("%g", p.Scale[at]), fmt.Sprintf("%g", q.Scale[at]))
	}
	if zero.Count > 0 {
		d.res.ZeroPoints++
		d.say(zero, DiffZeroPoint, fmt.Sprint(p.ZeroPoint[zat]), fmt.Sprint(q.ZeroPoint[zat]))
	}
}

// codes compares the integers of a parameter.
func (d *differ) codes(diff Difference, a, b tqc.SlotID) error {
	s, t := d.a.Set.Slot(a), d.b.Set.Slot(b)
	if !s.Weight || !t.Weight {
		return nil
	}
	x, err := tqc.Quantize(d.a.Graph.Const(s.Value), &s.Config, d.a.Set.Params(a))
	if err != nil {
		return err
	}
	y, err := tqc.Quantize(d.b.Graph.Const(t.Value), &t.Config, d.b.Set.Params(b))
	if err != nil {
		return err
	}
	if len(x) != len(y) {
		d.say(diff, DiffCodes, fmt.Sprintf("%d integers", len(x)), fmt.Sprintf("%d integers", len(y)))
		return nil
	}
	diff.Of, diff.Follows = len(x), diff.Follows && tensor.Equal(d.a.Graph.Const(s.Value), d.b.Graph.Const(t.Value))
	d.res.Codes += len(x)
	at := 0
	for i := range x {
		if x[i] != y[i] {
			diff.Count++
			if r := math.Abs(float64(y[i]) - float64(x[i])); r > diff.Largest {
				diff.Largest, at = r, i
			}
		}
	}
	if diff.Count > 0 {
		d.res.Flipped += diff.Count
		d.say(diff, DiffCodes, fmt.Sprint(x[at]), fmt.Sprint(y[at]))
	}
	return nil
}

package analysis

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Matching pairs the operators of two graphs that are the same or nearly so.
type Matching struct {
	// ToB and ToA are counterparts by NodeID, graph.NoNode for none.
	ToB, ToA []graph.NodeID
	// ByPlace says that names differ and the operators follow each other in the same order.
	ByPlace bool

	a, b           *graph.Graph
	orderA, orderB []graph.NodeID
}

// Match pairs operators by name and type; where most names differ and all types follow each other in the same order, by their place; and
// what is left by type, sizes of constants, and where its inputs come from or its outputs go to.
func Match(a, b *graph.Graph) (*Matching, error) {
	m := &Matching{a: a, b: b, ToB: none(a.NumNodes()), ToA: none(b.NumNodes())}
	var err error
	if m.orderA, err = a.Order(); err != nil {
		return nil, err
	}
	if m.orderB, err = b.Order(); err != nil {
		return nil, err
	}
	named := 0
	for _, x := range m.orderA {
		if y, ok := b.LookupNode(a.Node(x).Name); ok && b.Node(y).Op == a.Node(x).Op {
			m.pair(x, y)
			named++
		}
	}
	if len(m.orderA)-named > named &&
		slices.EqualFunc(m.orderA, m.orderB, func(x, y graph.NodeID) bool { return a.Node(x).Op == b.Node(y).Op }) {
		m.ByPlace = true
		for i, x := range m.orderA {
			m.pair(x, m.orderB[i])
		}
		return m, nil
	}
	for _, x := range m.orderA {
		m.forward(x)
	}
	for _, x := range slices.Backward(m.orderA) {
		m.backward(x)
	}
	return m, nil
}

func none(n int) []graph.NodeID { return slices.Repeat([]graph.NodeID{graph.NoNode}, n) }

func (m *Matching) pair(x, y graph.NodeID) { m.ToB[x], m.ToA[y] = y, x }

// value is the counterpart of a value that is no constant.
func (m *Matching) value(v graph.ValueID) graph.ValueID {
	if i := slices.Index(m.a.Inputs, v); i >= 0 && i < len(m.b.Inputs) {
		return m.b.Inputs[i]
	}
	x := m.a.Producer(v)
	if x == graph.NoNode || m.ToB[x] == graph.NoNode {
		return graph.NoValue
	}
	return m.b.Node(m.ToB[x]).Output(slices.Index(m.a.Node(x).Outputs, v))
}

// forward pairs an operator with the one that reads the same values; of several with the one that has the same constants, else the first.
func (m *Matching) forward(x graph.NodeID) {
	n := m.a.Node(x)
	i := slices.IndexFunc(n.Inputs, func(v graph.ValueID) bool { return v != graph.NoValue && m.a.Const(v) == nil })
	if m.ToB[x] != graph.NoNode || i < 0 {
		return
	}
	from := m.value(n.Inputs[i])
	if from == graph.NoValue {
		return
	}
	best := graph.NoNode
	for _, u := range m.b.Uses(from) {
		if y := u.Node; y != graph.NoNode && m.ToA[y] == graph.NoNode && m.alike(x, y, true, false) {
			if m.alike(x, y, true, true) {
				best = y
				break
			}
			if best == graph.NoNode {
				best = y
			}
		}
	}
	if best != graph.NoNode {
		m.pair(x, best)
	}
}

// backward pairs an operator with the one whose output goes to the same place.
func (m *Matching) backward(x graph.NodeID) {
	if m.ToB[x] != graph.NoNode {
		return
	}
	try := func(v graph.ValueID) bool {
		if v == graph.NoValue {
			return false
		}
		y := m.b.Producer(v)
		if y == graph.NoNode || m.ToA[y] != graph.NoNode || !m.alike(x, y, false, false) {
			return false
		}
		m.pair(x, y)
		return true
	}
	for _, v := range m.a.Node(x).Outputs {
		if i := slices.Index(m.a.Outputs, v); i >= 0 && i < len(m.b.Outputs) && try(m.b.Outputs[i]) {
			return
		}
		for _, u := range m.a.Uses(v) {
			if u.Node != graph.NoNode && m.ToB[u.Node] != graph.NoNode && try(m.b.Node(m.ToB[u.Node]).Input(u.Index)) {
				return
			}
		}
	}
}

// alike reports whether two operators are of one type and have constants of the same sizes, or values; with inputs,
// whether they read the same.
func (m *Matching) alike(x, y graph.NodeID, inputs, values bool) bool {
	n, o := m.a.Node(x), m.b.Node(y)
	if n.Op != o.Op || len(n.Inputs) != len(o.Inputs) {
		return false
	}
	for i, v := range n.Inputs {
		w := o.Inputs[i]
		if (v == graph.NoValue) != (w == graph.NoValue) {
			return false
		}
		if v == graph.NoValue {
			continue
		}
		c, d := m.a.Const(v), m.b.Const(w)
		switch {
		case (c == nil) != (d == nil):
			return false
		case c != nil && !slices.Equal(c.Shape, d.Shape) || c != nil && values && !tensor.Equal(c, d):
			return false
		case c == nil && inputs && m.value(v) != w:
			return false
		}
	}
	return true
}

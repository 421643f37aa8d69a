package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

// Finding is one violation of a target's rules.
type Finding struct {
	Rule string
	Node string // empty: the whole graph
	Text string
}

func (f Finding) String() string {
	if f.Node == "" {
		return fmt.Sprintf("%s: %s", f.Rule, f.Text)
	}
	return fmt.Sprintf("%s: node %q: %s", f.Rule, f.Node, f.Text)
}

// Rule is one thing a target's reader insists on.
type Rule struct {
	Name string
	Doc  string
	// applies says for which targets; nil for all.
	applies func(*target.Target) bool
	check   func(*checker)
}

// Rules lists what Check looks for.
var Rules = []Rule{structureRule, opsetRule, operatorsRule, scaleRule, zeroPointRule, zeroPointZeroRule, signedRule, rankZeroRule,
	perTensorRule, axisRule, weightedInputsRule, weightFormRule, floatBiasRule, integerBiasRule, splitFusionRule, integerOutputRule,
	passiveRule, fixedScaleRule}

// Check applies the rules of a target to a graph read back from a file, with inferred shapes. It returns what it finds in the
// order of Rules and, within a rule, in graph order; nothing for a file the target takes as it is meant.
func Check(g *graph.Graph, t *target.Target) []Finding {
	c := &checker{g: g, t: t}
	order, err := g.Order()
	if err != nil {
		return []Finding{{Rule: structureRule.Name, Text: err.Error()}}
	}
	c.order = order
	for i := range Rules {
		if r := &Rules[i]; r.applies == nil || r.applies(t) {
			c.rule = r.Name
			r.check(c)
		}
	}
	return c.found
}

type checker struct {
	g     *graph.Graph
	t     *target.Target
	order []graph.NodeID
	rule  string
	found []Finding
}

func (c *checker) report(n *graph.Node, format string, args ...any) {
	f := Finding{Rule: c.rule, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		f.Node = n.Name
	}
	c.found = append(c.found, f)
}

// each calls f for every node that is one of ops, in graph order; without ops for every node.
func (c *checker) each(f func(n *graph.Node), ops ...string) {
	for _, id := range c.order {
		n := c.g.Node(id)
		if len(ops) == 0 || is(n, ops...) {
			f(n)
		}
	}
}

func is(n *graph.Node, ops ...string) bool {
	if n == nil || n.Domain != "" {
		return false
	}
	for _, op := range ops {
		if n.Op == op {
			return true
		}
	}
	return false
}

const (
	quantizeLinear   = "QuantizeLinear"
	dequantizeLinear = "DequantizeLinear"
)

// producer returns the node that computes input i of n, nil for inputs and constants.
func (c *checker) producer(n *graph.Node, i int) *graph.Node {
	if p := c.g.Producer(n.Input(i)); p != graph.NoNode {
		return c.g.Node(p)
	}
	return nil
}

// dequantizer returns the DequantizeLinear in front of input i of n, nil if there is none.
func (c *checker) dequantizer(n *graph.Node, i int) *graph.Node {
	if p := c.producer(n, i); is(p, dequantizeLinear) {
		return p
	}
	return nil
}

// readers returns the nodes that read output i of n.
func (c *checker) readers(n *graph.Node, i int) []*graph.Node {
	var out []*graph.Node
	for _, u := range c.g.Uses(n.Outputs[i]) {
		out = append(out, c.g.Node(u.Node))
	}
	return out
}

// scales returns the constant scales of a Q or DQ, nil if they are not constant float32.
func (c *checker) scales(n *graph.Node) []float32 {
	if t := c.g.Const(n.Input(1)); t != nil {
		return t.F32()
	}
	return nil
}

// zeroPoints returns the constant zero points of a Q or DQ as integers.
func (c *checker) zeroPoints(n *graph.Node) (zp []int32, t *tensor.Tensor) {
	if t = c.g.Const(n.Input(2)); t == nil {
		return nil, nil
	}
	return integers(t), t
}

func integers(t *tensor.Tensor) []int32 {
	switch s := t.Data.(type) {
	case []int8:
		return widen(s)
	case []uint8:
		return widen(s)
	case []int16:
		return widen(s)
	case []uint16:
		return widen(s)
	case []int32:
		return s
	}
	return nil
}

func widen[T int8 | uint8 | int16 | uint16](s []T) []int32 {
	out := make([]int32, len(s))
	for i, v := range s {
		out[i] = int32(v)
	}
	return out
}

// sameParams reports whether two Q or DQ nodes have equal scales and zero points.
func (c *checker) sameParams(a, b *graph.Node) bool {
	for i := 1; i <= 2; i++ {
		x, y := c.g.Const(a.Input(i)), c.g.Const(b.Input(i))
		if x == nil || y == nil || !tensor.Equal(x, y) {
			return false
		}
	}
	return true
}

// role returns the target's row for n if it stands among quantized operators: its data input 0 is dequantized.
func (c *checker) role(n *graph.Node) *target.Op {
	op := c.t.Op(n)
	if op == nil || c.dequantizer(n, 0) == nil {
		return nil
	}
	return op
}

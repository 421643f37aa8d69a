package onnxqdq

import (
	"fmt"

	"qwb/export"
	"qwb/graph"
	"qwb/quantizer/target"
)

// rule is one thing a target's reader insists on: what export.Rule says, and how it is found.
type rule struct {
	Name, Doc, Fix string
	// applies says for which targets; nil for all.
	applies func(*target.Target) bool
	// meaning: the operators of ONNX want it, and not only an engine.
	meaning bool
	check   func(*checker)
}

// rules lists what Check looks for.
var rules = []rule{structureRule, opsetRule, operatorsRule, scaleRule, poolScaleRule, zeroPointRule,
	pairRule, zeroPointZeroRule, signedRule, rankZeroRule,
	perTensorRule, axisRule, inputsRule, weightFormRule, weightZeroPointRule, floatBiasRule, integerBiasRule, splitFusionRule, placementRule,
	integerOutputRule, oneTypeRule, passiveRule, fixedScaleRule, typesRule, scaleTypeRule, blocksRule, packedRule, floatZeroRule,
	parserOperatorsRule, parserTypesRule, parserAttributesRule, parserBlocksRule, strongTypesRule, subsampleRule, guardRule,
	brainRule, numbersRule}

// Rules lists what Check looks for, in words.
func Rules() []export.Rule {
	list := make([]export.Rule, len(rules))
	for i, r := range rules {
		list[i] = export.Rule{Name: r.Name, Doc: r.Doc, Fix: r.Fix}
	}
	return list
}

// Check applies the rules of a target to a graph read back from a file, with inferred shapes. integer says of which nodes, by
// name, the plan wants that they run on integers; with nil it is guessed from where the Q/DQ pairs stand, which cannot tell a
// missing pair from a float operator. Check returns what it finds in the order of Rules and, within a rule, in graph order;
// nothing for a file the target takes as it is meant.
func Check(g *graph.Graph, t *target.Target, integer func(node string) bool) []export.Finding {
	g = joined(g)
	c := &checker{g: g, t: t, integer: integer}
	order, err := g.Order()
	if err != nil {
		return []export.Finding{{Rule: structureRule.Name, Fix: structureRule.Fix, Text: err.Error()}}
	}
	c.order = order
	c.units = t.Units(g)
	for i := range rules {
		if r := &rules[i]; (r.meaning || !t.Export.Open) && (r.applies == nil || r.applies(t)) {
			c.rule = r
			r.check(c)
		}
	}
	return c.found
}

type checker struct {
	g       *graph.Graph
	t       *target.Target
	integer func(node string) bool
	order   []graph.NodeID
	units   []target.Unit
	rule    *rule
	found   []export.Finding
	guessed map[graph.NodeID]bool // what looks says
}

func (c *checker) report(n *graph.Node, format string, args ...any) {
	f := export.Finding{Rule: c.rule.Name, Fix: c.rule.Fix, Text: fmt.Sprintf(format, args...)}
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

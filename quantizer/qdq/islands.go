package qdq

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// namedIslands is how many nodes a warning about them names.
const namedIslands = 4

// islands warns of operators that stay in float although the file has integers on all of their sides: the engine that it was made for
// computes them on integers, and the target has no such form of them.
func (c *configurer) islands() error {
	var ops []string
	nodes := map[string][]string{}
	for _, id := range c.bound.Order {
		if c.integer[id] || c.soi[id] || !c.between(id) {
			continue
		}
		n := c.g.Node(id)
		if len(nodes[n.Op]) == 0 {
			ops = append(ops, n.Op)
		}
		nodes[n.Op] = append(nodes[n.Op], n.Name)
	}
	for _, op := range ops {
		list := nodes[op]
		names := strings.Join(list[:min(len(list), namedIslands)], ", ")
		if len(list) > namedIslands {
			names += fmt.Sprintf(", and %d more", len(list)-namedIslands)
		}
		c.warnings = append(c.warnings, tqc.Warning{Node: list[0], Value: float64(len(list)), Text: fmt.Sprintf(
			"%s stays in float between integers, %s has no integer form of it here: %s", op, c.t.Name, names)})
	}
	return nil
}

// between reports whether the file brings every number that a node reads, and everything that it computes, to a grid.
func (c *configurer) between(id graph.NodeID) bool {
	n := c.g.Node(id)
	computed, results := 0, 0
	for i, v := range n.Inputs {
		if v == graph.NoValue || c.g.Const(v) != nil || !target.DataInput(c.g, id, i) {
			continue
		}
		if computed++; len(c.q.reads[graph.Use{Node: id, Index: i}]) == 0 {
			return false
		}
	}
	for i, v := range n.Outputs {
		if v == graph.NoValue || !target.DataOutput(c.g, id, i) || len(c.g.Uses(v)) == 0 && !c.g.IsOutput(v) {
			continue
		}
		if results++; c.common(v) == nil {
			return false
		}
	}
	return computed > 0 && results > 0
}

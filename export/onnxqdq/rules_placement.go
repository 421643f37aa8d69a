package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

var inputsRule = rule{Name: "inputs", Doc: "an operator that runs on integers has every input quantized: weighted ones both, a residual " +
	"Add the skip branch", Fix: "quantize the input, or leave the operator in float",
	check: func(c *checker) {
		residuals := target.NewResiduals(c.g, c.t, c.order)
		integer := func(id graph.NodeID) bool { return c.role(c.g.Node(id)) != nil }
		c.each(func(n *graph.Node) {
			op := c.role(n)
			if op == nil || op.Role != target.Weighted && c.t.Placement.Outputs() && !c.touched(n) || c.t.Tables > 0 && c.ofOneTensor(n) {
				return
			}
			for _, i := range c.quantizedInputs(n, op, residuals, integer) {
				if c.dequantizer(n, i) == nil && !c.fromBook(n, i) && !guarded(c.g, n.Input(i)) && !c.movedInput(n.Input(i)) {
					c.report(n, "input %d is not quantized", i)
				}
			}
		})
	}}

// float8 reports whether a Q of 8-bit floats reads output 0 of n, or that of a Min behind it.
func (c *checker) float8(n *graph.Node) bool {
	return slices.ContainsFunc(c.readers(n, 0), func(q *graph.Node) bool {
		return is(q, quantizeLinear) && isFloat8(c.g, q) || is(n, "Max") && is(q, "Min") && c.float8(q)
	})
}

// touched reports whether a node reads a dequantized tensor or computes one that is quantized. Between operators whose inputs are quantized
// at run time there are some that do neither: they are float.
func (c *checker) touched(n *graph.Node) bool {
	for i := range n.Inputs {
		if c.dequantizer(n, i) != nil {
			return true
		}
	}
	for i, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		for _, r := range c.readers(n, i) {
			if is(r, quantizeLinear) && !c.runTime(r) {
				return true
			}
		}
	}
	return false
}

// ofOneTensor reports whether a node computes elements from those at the same place of one dequantized tensor, as parts of tables do.
func (c *checker) ofOneTensor(n *graph.Node) bool {
	seen, sources := map[graph.ValueID]bool{}, 0
	for stack := []*graph.Node{n}; len(stack) > 0; {
		at := stack[len(stack)-1]
		if stack = stack[:len(stack)-1]; !c.g.Pointwise(at.ID) {
			return false
		}
		for i, v := range at.Inputs {
			p := c.producer(at, i)
			switch {
			case v == graph.NoValue || c.g.Const(v) != nil || seen[v]:
			case p == nil:
				return false
			case is(p, dequantizeLinear):
				sources++
			default:
				stack = append(stack, p)
			}
			seen[v] = true
		}
	}
	return sources == 1
}

// quantizedInputs lists the inputs of an integer operator that must be dequantized ones. The bias has rules of its own.
func (c *checker) quantizedInputs(n *graph.Node, op *target.Op, r *target.Residuals, integer func(graph.NodeID) bool) []int {
	var list []int
	switch {
	case op.Role == target.Weighted:
		return []int{0, 1}
	case c.t.Placement.Residual() && op.Role == target.Arithmetic:
		// The skip branch is found as if the pair did not stand there; with a pair on each branch there is nothing to find.
		if _, skip, ok := r.Branches(n.ID, integer); ok {
			list = append(list, skip)
		}
	case c.t.Placement == target.AllInputs && op.Role != target.Arithmetic:
	case !c.t.Placement.Residual() && !c.fused(n, op):
		for _, i := range target.DataInputs(c.g, n.ID) {
			if op.Role != target.Activation || c.g.Const(n.Input(i)) == nil {
				list = append(list, i)
			}
		}
	}
	return list
}

// fused reports whether n is an activation, or part of one, that alone reads what an integer operator computes.
func (c *checker) fused(n *graph.Node, op *target.Op) bool {
	if u := c.unit(n.ID); u != nil {
		return c.unitOf(u.Input) == u
	}
	if op.Role == target.Arithmetic && c.t.Chain > 1 {
		return c.chained(n)
	}
	head := c.producer(n, 0)
	if op.Role != target.Activation || head == nil || len(c.readers(head, 0)) != 1 {
		return false
	}
	return c.role(head) != nil
}

// chained reports whether n puts a number to what activations behind a sum of products on integers compute, which nobody else reads.
func (c *checker) chained(n *graph.Node) bool {
	for range c.t.Chain {
		at, ok := c.g.Argument(n.ID)
		head := graph.NoNode
		if ok {
			head = c.g.Producer(n.Input(at))
		}
		if head == graph.NoNode || len(c.readers(c.g.Node(head), 0)) != 1 || c.g.IsOutput(n.Input(at)) {
			return false
		}
		n = c.g.Node(head)
		if u := c.unit(head); u != nil {
			return c.unitOf(u.Input) == u
		}
		if op := c.role(n); op != nil && op.Role == target.Weighted {
			return true
		}
	}
	return false
}

// unit returns the activation of several nodes that a node is part of, nil for none.
func (c *checker) unit(id graph.NodeID) *target.Unit {
	for i := range c.units {
		if u := &c.units[i]; !u.Fusion.Island && slices.Contains(u.Nodes, id) {
			return u
		}
	}
	return nil
}

// unitOf returns the activation of several nodes that alone reads v, which a weighted integer operator computes; nil for none.
func (c *checker) unitOf(v graph.ValueID) *target.Unit {
	p := c.g.Producer(v)
	if p == graph.NoNode || len(c.g.Uses(v)) == 0 {
		return nil
	}
	u := c.unit(c.g.Uses(v)[0].Node)
	if u == nil || u.Input != v || !u.Inside(c.g, v) {
		return nil
	}
	if op := c.role(c.g.Node(p)); op == nil || op.Role != target.Weighted {
		return nil
	}
	return u
}

// end returns the last of the values that an operator computes together with the activations behind it, and who reads that.
func (c *checker) end(n *graph.Node, op *target.Op, i int) (graph.ValueID, []*graph.Node) {
	last, readers := n.Outputs[i], c.readers(n, i)
	if u := c.unitOf(last); u != nil {
		end := c.g.Node(u.Nodes[len(u.Nodes)-1])
		return end.Outputs[0], c.readers(end, 0)
	}
	for range max(c.t.Chain, 1) {
		if len(readers) != 1 || c.g.IsOutput(last) || op.Role == target.Activation || !c.activates(readers[0]) {
			break
		}
		last, readers = readers[0].Outputs[0], c.readers(readers[0], 0)
	}
	return last, readers
}

var splitFusionRule = rule{Name: "split-fusion", Doc: "no Q/DQ between a weighted operator and the activation that is fused to it",
	Fix: "take the pair between operator and activation away",
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.t.Op(n)
			dq := c.activation(n, 0)
			if op == nil || op.Role != target.Activation || dq == nil || len(c.readers(dq, 0)) != 1 || c.g.IsOutput(dq.Outputs[0]) {
				return
			}
			q := c.quantizer(dq)
			head := c.producer(q, 0)
			if head == nil || len(c.readers(q, 0)) != 1 || len(c.readers(head, 0)) != 1 {
				return
			}
			if row := c.role(head); row != nil && row.Role == target.Weighted {
				c.report(n, "Q/DQ stands between it and %q", head.Name)
			}
		})
	}}

var placementRule = rule{Name: "placement",
	Doc: "Q/DQ stands in front of weighted operators and on skip branches only: elsewhere it breaks up fusions", Fix: "take the pair away",
	applies: func(t *target.Target) bool { return t.Placement.Residual() },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			for _, r := range c.readers(n, 0) {
				op := c.t.Op(r)
				if op == nil || op.Role != target.Weighted && op.Role != target.Arithmetic || c.integer != nil && !c.integer(r.Name) {
					c.report(n, "read by %s %q", r.Op, r.Name)
				} else if op.Role == target.Arithmetic && c.dequantizer(r, 0) != nil && c.dequantizer(r, 1) != nil {
					c.report(n, "both branches of %q are quantized: the main one cannot be fused", r.Name)
				}
			}
			if c.g.IsOutput(n.Outputs[0]) {
				c.report(n, "a graph output is quantized")
			}
		}, dequantizeLinear)
	}}

var integerOutputRule = rule{Name: "integer-output", Doc: "what a quantized operator (with its activation) computes is read by one Q " +
	"only, else it is not replaced by an integer kernel", Fix: "quantize what the operator computes, once, before any other reader",
	applies: func(t *target.Target) bool { return t.Export.QuantizedOutputs },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.role(n)
			if op == nil || c.fused(n, op) || op.Role == target.Weighted && !c.integerProduct(n) || op.Role != target.Weighted && !c.touched(n) {
				return
			}
			for i, v := range n.Outputs {
				if v == graph.NoValue || !target.DataOutput(c.g, n.ID, i) || len(c.g.Uses(v)) == 0 && !c.g.IsOutput(v) {
					continue
				}
				last, r := c.end(n, op, i)
				if c.t.EndsInFloat(op) && !slices.ContainsFunc(r, func(q *graph.Node) bool { return is(q, quantizeLinear) }) {
					continue // it writes float
				}
				if slices.ContainsFunc(r, func(q *graph.Node) bool { return is(q, dynamicQuantize, quantizeLinear) && c.runTime(q) }) {
					continue // no integer kernel has scales of run time
				}
				if len(r) == 1 && is(r[0], "Max", "Min") && c.float8(r[0]) {
					continue // nor 8-bit floats behind a Relu or a Clip; see relus
				}
				if len(r) != 1 || !is(r[0], quantizeLinear) || c.g.IsOutput(last) {
					c.report(n, "output %d is not read by exactly one QuantizeLinear", i)
				}
			}
		})
	}}

var oneTypeRule = rule{Name: "one-type", Doc: "the quantized tensors an operator reads and computes have one integer type, weights apart",
	Fix:     "give the tensors of the operator one integer type",
	applies: func(t *target.Target) bool { return t.Export.OneType },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			if c.role(n) == nil || n.Op == "LSTM" { // whose cells have 16 bits
				return
			}
			var types []tensor.DType
			add := func(q *graph.Node) {
				if _, t := c.zeroPoints(q); t != nil && !slices.Contains(types, t.DType) {
					types = append(types, t.DType)
				}
			}
			for i := range n.Inputs {
				if dq := c.activation(n, i); dq != nil {
					add(dq)
				}
			}
			for i := range n.Outputs {
				for _, q := range c.readers(n, i) {
					if is(q, quantizeLinear) {
						add(q)
					}
				}
			}
			if len(types) > 1 {
				c.report(n, "its tensors are %v", types)
			}
		})
	}}

var passiveRule = rule{Name: "passive", Doc: "an operator that moves elements has one scale and zero point on both sides",
	Fix:     "give both sides the scale of the input",
	applies: func(t *target.Target) bool { return t.Export.PassiveScale },
	check: func(c *checker) {
		c.each(func(n *graph.Node) {
			op := c.role(n)
			in := c.dequantizer(n, 0)
			if op == nil || op.Role != target.Passive || in == nil {
				return
			}
			for i := range n.Outputs {
				for _, q := range c.readers(n, i) {
					if is(q, quantizeLinear) && !c.runTime(q) && !c.runTime(in) && !c.sameParams(in, q) {
						c.report(n, "output %d has another scale or zero point than the input", i)
					}
				}
			}
		})
	}}

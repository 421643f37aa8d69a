package graph

import (
	"fmt"
	"slices"
)

// batchSymbol names the first dimension of inputs once it is open, unless one of them has a name for it already.
const batchSymbol = "batch"

// OpenBatch returns a graph that takes any number of samples along the first axis of its inputs, made from a graph whose inputs
// have the fixed size 1 there. If the inputs are open already it returns g itself, otherwise a copy. The copy keeps ids and
// names; recorded shapes get the open dimension, and a Reshape whose target begins with the constant 1 gets 0 instead, which
// copies the dimension.
//
// Every value that depends on the samples must then have them along its first axis, one after the other (or several entries for
// each). If one does not, the error names the first node, in order of execution, that breaks this. Whether an operator mixes
// samples cannot be seen here: normalizing along the first axis, for example, leaves no trace in the shapes.
func OpenBatch(g *Graph) (*Graph, error) {
	symbol, fixed, err := g.batchInputs()
	if err != nil || !fixed {
		return g, err
	}
	open := g.Clone()
	carries := make([]bool, open.NumValues())
	for _, v := range open.Inputs {
		if open.Const(v) == nil {
			shape := slices.Clone(open.values[v].Shape)
			shape[0] = Dim{N: -1, Symbol: symbol}
			open.values[v].Shape, carries[v] = shape, true
		}
	}
	for i := range open.values {
		if v := &open.values[i]; v.producer != NoNode {
			v.Shape = nil
		}
	}
	order, err := open.Order()
	if err != nil {
		return nil, err
	}
	var errs []error
	r := newInferrer(open, nil, &errs)
	for _, id := range order {
		open.openReshape(r, id, symbol)
		err := r.node(id)
		n := &open.nodes[id]
		if err == nil && len(errs) > 0 {
			err = errs[0]
		}
		if err == nil && open.carriesOn(id, carries) {
			err = open.checkBatch(n, symbol, carries)
		}
		if err != nil {
			return nil, open.ErrorAt("batch", id, err)
		}
	}
	return open, nil
}

// batchInputs returns the symbol of the first dimension of the inputs, and whether one of them has the fixed size 1 there.
func (g *Graph) batchInputs() (symbol string, fixed bool, err error) {
	for _, v := range g.Inputs {
		val := &g.values[v]
		switch {
		case val.Const != nil:
		case len(val.Shape) == 0:
			return "", false, fmt.Errorf("input %q, %s, has no axis for samples", val.Name, FormatType(val.DType, val.Shape))
		case val.Shape[0].N > 1:
			return "", false, fmt.Errorf("input %q, %s, has a fixed size other than 1", val.Name, FormatType(val.DType, val.Shape))
		case val.Shape[0].N == 1:
			fixed = true
		case symbol == "":
			symbol = val.Shape[0].Symbol
		}
	}
	if symbol == "" {
		symbol = batchSymbol
	}
	return symbol, fixed, nil
}

// openReshape makes a Reshape of something with open samples copy that dimension, where its target is a constant that begins
// with 1.
func (g *Graph) openReshape(r *inferrer, id NodeID, symbol string) {
	n := &g.nodes[id]
	if n.Op != "Reshape" || n.Spec() == nil || n.AttrInt("allowzero", 0) != 0 || len(n.Inputs) == 0 {
		return
	}
	x := r.input(n.Input(0)).Shape
	if len(x) == 0 || x[0].Symbol != symbol {
		return
	}
	if a := n.Attr("shape"); a != nil && len(n.Inputs) == 1 && len(a.Ints) > 0 && a.Ints[0] == 1 {
		n.SetAttr(Ints("shape", append([]int64{0}, a.Ints[1:]...)...))
		return
	}
	target := g.Const(n.Input(1))
	if target == nil || target.I64() == nil || target.Len() == 0 || target.I64()[0] != 1 {
		return
	}
	t := target.Clone()
	t.I64()[0] = 0
	g.SetInput(id, 1, g.AddConst(g.values[n.Inputs[1]].Name, t))
	r.found = append(r.found, InferOutput{})
}

// carriesOn reports whether what a node computes depends on samples by more than their number.
func (g *Graph) carriesOn(id NodeID, carries []bool) bool {
	if n := &g.nodes[id]; n.Op == "Shape" || n.Op == "Size" {
		return false
	}
	return slices.ContainsFunc(g.dependencies(id), func(v ValueID) bool { return v != NoValue && int(v) < len(carries) && carries[v] })
}

// checkBatch holds that the outputs of a node have the samples along their first axis.
func (g *Graph) checkBatch(n *Node, symbol string, carries []bool) error {
	for i, v := range n.Outputs {
		if v == NoValue {
			continue
		}
		carries[v] = true
		s := g.values[v].Shape
		if len(s) > 0 {
			if p, ok := s[0].elem().poly(); ok && p.multipleOf(symbol) {
				continue
			}
		}
		return fmt.Errorf("its output %d, %s, does not have the samples of a batch along its first axis", i, FormatType(g.values[v].DType, s))
	}
	return nil
}

// multipleOf reports whether every term of p has the symbol as a part.
func (p poly) multipleOf(symbol string) bool {
	return p.c == 0 && !slices.ContainsFunc(p.terms, func(m monomial) bool { return !slices.Contains(m.parts, symbol) })
}

package qdq

import (
	"fmt"
	"maps"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Imported is a quantized graph as a float graph with the configuration of every tensor.
type Imported struct {
	Graph    *graph.Graph
	Set      *tqc.Set
	Target   *target.Target
	Warnings []tqc.Warning
	// Free is Set without the file's scales: the same slots and schemes, to be given scales by calibration, by the target's methods.
	Free *tqc.Set
	// Codes are those that the file has of constants of Graph, where quantizing these gives them.
	Codes map[graph.ValueID]*tensor.Tensor
}

// Configure writes down what the file says as a set for a target: pairs become slots in the states that quantizer.Configure would
// have given them. An operator is an integer one if the file brings all numbers that it reads, and, unless it sums products, what
// it computes to a grid. A pair that no slot of such an operator stands for gets an Identity of its own.
func (q *Quantized) Configure(t *target.Target) (*Imported, error) {
	c := &configurer{g: q.Graph.Clone(), q: q, t: t, reads: maps.Clone(q.reads), out: map[graph.ValueID]*grid{}, in: map[graph.Use]*grid{},
		codes: map[graph.ValueID]*tensor.Tensor{}}
	for _, step := range []func() error{c.bind, c.domains, c.islands, c.place, c.configure, c.states, c.integerBiases, c.prove, c.unused} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &Imported{Graph: c.g, Set: c.set, Free: c.free, Target: t, Codes: c.codes,
		Warnings: slices.Concat(q.Warnings, q.restored(), c.warnings)}, nil
}

// configurer is the state of one Configure.
type configurer struct {
	g        *graph.Graph
	q        *Quantized
	t        *target.Target
	reads    map[graph.Use][]*grid
	bound    *target.Bound
	integer  []bool         // by node
	fused    []graph.NodeID // by node
	bridges  []graph.NodeID // Identities that were added
	why      []string
	soi      []bool
	out      map[graph.ValueID]*grid // what an output slot brings a value to
	in       map[graph.Use]*grid     // what an input slot does
	set      *tqc.Set
	free     *tqc.Set                         // as it is before it has scales
	codes    map[graph.ValueID]*tensor.Tensor // of Imported
	warnings []tqc.Warning
}

// bind looks at the graph with the eyes of the target. Fusions into which the file quantizes are none.
func (c *configurer) bind() error {
	free := *c.t
	free.BorderCost, free.Fusions = 0, nil
	for _, f := range c.t.Fusions {
		one := free
		one.Fusions = []target.Fusion{f}
		split := false
		for _, u := range one.Units(c.g) {
			split = split || c.split(u)
		}
		if !split {
			free.Fusions = append(free.Fusions, f)
		}
	}
	var err error
	if c.bound, err = free.Bind(c.g); err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return nil
}

// split reports whether a tensor inside a unit is quantized.
func (c *configurer) split(u target.Unit) bool {
	inside := map[graph.ValueID]bool{}
	for _, id := range u.Nodes {
		for _, v := range c.g.Node(id).Outputs {
			inside[v] = v != graph.NoValue
		}
	}
	for _, id := range u.Nodes {
		for i, v := range c.g.Node(id).Inputs {
			if inside[v] && len(c.reads[graph.Use{Node: id, Index: i}]) > 0 {
				return true
			}
		}
	}
	return false
}

// byImport is who decided the domains.
const byImport = dispatch.ByImport

// domains finds the nodes that run on integers, and what they are fused with.
func (c *configurer) domains() error {
	n := c.g.NumNodes()
	c.integer, c.fused, c.why, c.soi = make([]bool, n), make([]graph.NodeID, n), make([]string, n), make([]bool, n)
	float := dispatch.Forced{Who: byImport, Why: "the file computes it in float"}
	for _, id := range c.bound.Order {
		c.fused[id] = graph.NoNode
		if c.t.Placement.Outputs() && !c.isInteger(id) || !c.t.Placement.Outputs() && c.isFloat(id) {
			float.Nodes = append(float.Nodes, id)
		}
	}
	a, err := dispatch.AssignBound(c.bound, dispatch.Options{Forced: []dispatch.Forced{float}})
	if err != nil {
		return err
	}
	for _, id := range c.bound.Order {
		c.why[id], c.soi[id] = a.Why[id], a.Domains[id] == tqc.DomainSOI
		if c.t.Placement.Outputs() {
			continue
		}
		c.integer[id], c.fused[id] = a.Domains[id] == tqc.DomainInt, a.Fused[id]
	}
	for _, id := range c.bound.Order {
		if c.integer[id] {
			c.why[id], c.soi[id] = byImport+": quantized in the file", false
		}
	}
	return nil
}

// isInteger decides for targets that quantize outputs. The nodes before id are decided.
func (c *configurer) isInteger(id graph.NodeID) bool {
	op, n := c.bound.Ops[id], c.g.Node(id)
	if op == nil {
		return false
	}
	ok := true
	if head := c.bound.Heads[id]; head != graph.NoNode && len(c.reads[graph.Use{Node: id, Index: 0}]) == 0 {
		for i, v := range n.Inputs { // of an activation of several nodes
			ok = ok && (v == graph.NoValue || len(c.reads[graph.Use{Node: id, Index: i}]) == 0)
		}
		if ok = ok && c.integer[head]; ok {
			c.fused[id] = head
		}
		c.integer[id] = ok
		return ok
	}
	if op.Role == target.Activation && !op.Alone {
		return false
	}
	computed := 0
	for _, i := range c.bound.DataInputs(id) {
		constant := c.g.Const(n.Inputs[i]) != nil
		if !constant {
			computed++
		}
		optional := constant && (op.Role == target.Activation || op.Role == target.Weighted && i == graph.BiasOf(n))
		ok = ok && (optional || len(c.reads[graph.Use{Node: id, Index: i}]) > 0)
	}
	ok = ok && computed > 0
	if op.Role != target.Weighted || c.cells(id) {
		for i, v := range n.Outputs {
			if v != graph.NoValue && target.DataOutput(c.g, id, i) && (len(c.g.Uses(v)) > 0 || c.g.IsOutput(v)) {
				q := c.common(c.end(id, v))
				ok = ok && q != nil && (op.FixedScale == 0 || q.dtype.Bits() == 8 || q.scale[0] == op.FixedScale) // no kernel has other 16 bits
			}
		}
	}
	c.integer[id] = ok
	return ok
}

// cells reports whether a node is an LSTM of integers throughout: its data have scales of the file, and its biases are integers.
func (c *configurer) cells(id graph.NodeID) bool {
	data := c.reads[graph.Use{Node: id, Index: 0}]
	return c.g.Node(id).Op == "LSTM" && len(data) > 0 && !data[0].runTime && len(c.reads[graph.Use{Node: id, Index: 3}]) > 0
}

// end returns the value behind the activation that is fused to a node which computes v.
func (c *configurer) end(id graph.NodeID, v graph.ValueID) graph.ValueID {
	for {
		u, sole := c.g.SoleUse(v)
		if !sole || c.bound.Heads[u.Node] != id || len(c.reads[u]) > 0 || len(c.g.Node(u.Node).Outputs) != 1 {
			return v
		}
		v = c.g.Node(u.Node).Outputs[0]
	}
}

// isFloat decides for targets that quantize inputs only: an operator that sums products of what is not quantized is float.
func (c *configurer) isFloat(id graph.NodeID) bool {
	op := c.bound.Ops[id]
	if op == nil {
		return true
	}
	if op.Role != target.Weighted {
		return false
	}
	return len(c.reads[graph.Use{Node: id, Index: 0}]) == 0 || len(c.reads[graph.Use{Node: id, Index: 1}]) == 0
}

// common returns the grid that all who read v bring it to first, nil where there is none.
func (c *configurer) common(v graph.ValueID) *grid { return common(c.g, c.reads, c.q.outputs, v) }

// common is the grid that all who read a value of g bring it to first, given the grids of inputs and of graph outputs; nil where
// there is none, or somebody reads the numbers as they are.
func common(g *graph.Graph, reads map[graph.Use][]*grid, outputs [][]*grid, v graph.ValueID) *grid {
	if g.Captured(v) {
		return nil
	}
	var first *grid
	see := func(chain []*grid) bool {
		if len(chain) == 0 || first != nil && !first.same(chain[0]) {
			return false
		}
		first = chain[0]
		return true
	}
	for _, u := range g.Uses(v) {
		if !see(reads[u]) {
			return nil
		}
	}
	for k, o := range g.Outputs {
		if o == v && !see(outputs[k]) {
			return nil
		}
	}
	return first
}

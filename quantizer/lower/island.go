package lower

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Island is a part of the graph that runs in float, or computes shapes and indices. Its inputs and outputs are those of Graph, in
// order. Where only the shape of an input matters, that may be a tensor of integers.
type Island struct {
	Graph *graph.Graph
}

// Name implements Op.
func (*Island) Name() string { return "Island" }

func (o *Island) describe() string {
	return operators(o.Graph)
}

// namedReasons is how many operators an error names, each with the reason why it is float.
const namedReasons = 8

// needFloat refuses islands of numbers on targets that have no float, and says for every operator among them why it needs float.
func (c *compiler) needFloat() error {
	if c.program.Float != target.FloatAbsent {
		return nil
	}
	var reasons []string
	count, of := 0, map[string]int{}
	for _, u := range c.units {
		for _, id := range u.nodes {
			if !u.float || c.set.Domains[id] == tqc.DomainSOI {
				continue
			}
			count++
			n := c.g.Node(id)
			_, why, _ := strings.Cut(c.set.Why[id], ": ")
			if of[n.Op]++; of[n.Op] == 1 {
				reasons = append(reasons, fmt.Sprintf("%q (%s): %s", n.Name, n.Op, why))
			}
		}
	}
	if count == 0 {
		return nil
	}
	if len(reasons) > namedReasons {
		reasons = append(reasons[:namedReasons], "...")
	}
	return fmt.Errorf("%s: %s has no float, which %d nodes need: %s", stage, c.program.Target, count, strings.Join(reasons, "; "))
}

// operators lists the operators of a graph, in the order of execution.
func operators(g *graph.Graph) string {
	order, err := g.Order()
	if err != nil {
		return err.Error()
	}
	var ops []string
	for _, id := range order {
		ops = append(ops, g.Node(id).Op)
	}
	return strings.Join(ops, " ")
}

// flush emits the float nodes that wait as one island.
func (c *compiler) flush() error {
	if len(c.island) == 0 {
		return nil
	}
	nodes := c.island
	c.island = nil
	inside := func(v graph.ValueID) bool {
		p := c.g.Producer(v)
		return p != graph.NoNode && slices.Contains(nodes, p)
	}
	var inputs, outputs []graph.ValueID
	shapeOnly := map[graph.ValueID]bool{}
	for _, id := range nodes {
		n := c.g.Node(id)
		for _, v := range c.reads(n) {
			if inside(v) {
				continue
			}
			if !slices.Contains(inputs, v) {
				inputs = append(inputs, v)
				shapeOnly[v] = true
			}
			shapeOnly[v] = shapeOnly[v] && onlyShape(n)
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && c.readOutside(v, nodes) {
				outputs = append(outputs, v)
			}
		}
	}
	if len(outputs) == 0 {
		return nil // nobody reads what they compute
	}
	g, err := c.baked(nodes)
	if err != nil {
		return err
	}
	part, err := graph.Extract(g, inputs, outputs)
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	var in, out []TensorID
	for i, v := range inputs {
		id, err := c.islandInput(v, shapeOnly[v])
		if err != nil {
			return err
		}
		in = append(in, id)
		part.Value(part.Inputs[i]).DType = c.program.Tensors[id].DType
	}
	for _, v := range outputs {
		out = append(out, c.define(v, realForm))
	}
	if err := c.round(part); err != nil {
		return err
	}
	c.step(nodes[0], nodes, in, out, &Island{Graph: part})
	for _, v := range outputs {
		if err := c.convert(v); err != nil {
			return err
		}
	}
	return nil
}

// round makes what nodes of a domain of less precision read and compute pass through its type, as the simulation does.
func (c *compiler) round(part *graph.Graph) error {
	types := map[string]tensor.DType{}
	for _, id := range part.Nodes() {
		name := part.Node(id).Name
		own, ok := c.g.LookupNode(name)
		if !ok {
			continue
		}
		if d := c.set.Domains[own].Half(); d != tensor.Undefined {
			types[name] = d
		}
	}
	if len(types) == 0 {
		return nil
	}
	if err := passes.Narrow(part, passes.Rounded, func(id graph.NodeID) tensor.DType { return types[part.Node(id).Name] }); err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return nil
}

// baked returns the graph, in which weights of float nodes that are quantized are what their grids leave of them.
func (c *compiler) baked(nodes []graph.NodeID) (*graph.Graph, error) {
	if !slices.ContainsFunc(nodes, func(id graph.NodeID) bool { return c.set.Domains[id] == tqc.DomainWeights }) {
		return c.g, nil
	}
	g := c.g.Clone()
	for _, id := range nodes {
		for i := range c.g.Node(id).Inputs {
			if err := c.fake(g, id, i); err != nil {
				return nil, c.fail(id, "input %d: %w", i, err)
			}
		}
	}
	return g, nil
}

// islandInput returns the tensor that an island reads.
func (c *compiler) islandInput(v graph.ValueID, shapeOnly bool) (TensorID, error) {
	if _, real := c.tensors[formOf{v, realForm}]; shapeOnly && !real && c.isFloat(v) {
		for _, f := range append(c.forms(v), c.wanted[v]...) {
			if id, ok := c.tensors[formOf{v, f}]; ok {
				return id, nil
			}
		}
	}
	return c.read(v, realForm)
}

// readOutside reports whether v is read by a node that is not among nodes, by a subgraph of one, or by nobody but the caller.
func (c *compiler) readOutside(v graph.ValueID, nodes []graph.NodeID) bool {
	if c.g.IsOutput(v) {
		return true
	}
	for _, u := range c.g.Uses(v) {
		if !slices.Contains(nodes, u.Node) {
			return true
		}
	}
	if !c.g.Captured(v) {
		return false
	}
	for _, id := range c.order {
		if slices.Contains(c.g.Node(id).CapturedNames(), c.g.Value(v).Name) && !slices.Contains(nodes, id) {
			return true
		}
	}
	return false
}

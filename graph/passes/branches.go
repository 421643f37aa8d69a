package passes

import (
	"fmt"
	"slices"

	"qwb/graph"
)

// Branches resolves If where the condition is known.
var Branches = Pass{
	Name:  "branches",
	Doc:   "Replaces If by the branch that its condition takes, where that is a constant or follows from fixed dimensions.",
	sweep: branches,
}

// branches repeats until nothing changes, since a branch may hold another If: a round of passes per level would look like no progress.
func branches(c *Context) error {
	for done := false; !done; {
		done = true
		ifs := slices.DeleteFunc(c.G.Nodes(), func(id graph.NodeID) bool {
			n := c.G.Node(id)
			return n.Op != "If" || !n.IsONNX() || n.Input(0) == graph.NoValue
		})
		if len(ifs) == 0 {
			return nil
		}
		known := graph.KnownElements(c.G)
		var taken []*graph.Node
		var bodies []*graph.Graph
		for _, id := range ifs {
			n := c.G.Node(id)
			cond, ok := known(n.Input(0))
			if !ok || len(cond) != 1 {
				continue
			}
			name := "else_branch"
			if cond[0] != 0 {
				name = "then_branch"
			}
			if a := n.Attr(name); a != nil && a.G != nil && len(a.G.Outputs) == len(n.Outputs) {
				taken, bodies = append(taken, n), append(bodies, a.G)
			}
		}
		if len(taken) == 0 {
			return nil
		}
		names := newNaming(c.G)
		for i, n := range taken {
			if err := names.separate(bodies[i]); err != nil {
				return err
			}
			p, err := unwrap(c.G, n.ID, bodies[i])
			if err != nil {
				return err
			}
			if err := c.apply(p); err != nil {
				return err
			}
			done = false
		}
	}
	return nil
}

// unwrap puts the nodes of a branch, which is used up, in the place of the If around it.
func unwrap(g *graph.Graph, id graph.NodeID, body *graph.Graph) (*Patch, error) {
	n := g.Node(id)
	p := &Patch{What: "the condition is known"}
	p.Drop(id)
	ids := make([]graph.ValueID, body.NumValues())
	for _, v := range body.Values() {
		val := body.Value(v)
		switch {
		case val.Outer:
			outer, ok := g.Lookup(val.Name)
			if !ok {
				return nil, fmt.Errorf("%q has no value in the enclosing graph", val.Name)
			}
			ids[v] = outer
		case val.Const != nil:
			ids[v] = p.Const(val.Name, val.Const)
		default:
			ids[v] = p.Typed(val.Name, val.DType, val.Shape)
		}
	}
	mapped := func(v graph.ValueID) graph.ValueID {
		if v == graph.NoValue {
			return v
		}
		return ids[v]
	}
	for _, inner := range body.Nodes() {
		m := *body.Node(inner)
		m.Inputs, m.Outputs = mapIDs(m.Inputs, mapped), mapIDs(m.Outputs, mapped)
		p.Add(m)
	}
	for i, v := range body.Outputs {
		if y := n.Outputs[i]; y != graph.NoValue {
			p.Add(graph.Node{Op: "Identity", Inputs: []graph.ValueID{ids[v]}, Outputs: []graph.ValueID{y}})
		}
	}
	return p, nil
}

// naming counts how often a graph and the graphs in it define each name.
type naming struct {
	count  map[string]int
	suffix map[string]int // tried last
}

func newNaming(g *graph.Graph) *naming {
	n := &naming{map[string]int{}, map[string]int{}}
	n.add(g)
	return n
}

func (n *naming) add(g *graph.Graph) {
	for _, v := range g.Values() {
		if !g.Value(v).Outer {
			n.count[g.Value(v).Name]++
		}
	}
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			n.add(sub)
		}
	}
}

// separate renames what a branch defines under names that are used elsewhere too: ONNX allows two branches the same names, but not
// a graph and a branch in it.
func (n *naming) separate(body *graph.Graph) error {
	for _, v := range body.Values() {
		old := body.Value(v).Name
		if body.Value(v).Outer || n.count[old] == 1 {
			continue
		}
		name := old
		for n.count[name] > 0 {
			n.suffix[old]++
			name = fmt.Sprintf("%s_%d", old, n.suffix[old])
		}
		n.count[old]--
		n.count[name]++
		if err := body.Rename(v, name); err != nil {
			return err
		}
		if err := renameOuter(body, old, name); err != nil {
			return err
		}
	}
	return nil
}

// renameOuter makes the graphs in the nodes of g that read old from outside read name.
func renameOuter(g *graph.Graph, old, name string) error {
	for _, id := range g.Nodes() {
		for _, sub := range g.Node(id).Subgraphs() {
			if v, ok := sub.Lookup(old); ok {
				if !sub.Value(v).Outer {
					continue // a name of its own
				}
				if err := sub.Rename(v, name); err != nil {
					return err
				}
			}
			if err := renameOuter(sub, old, name); err != nil {
				return err
			}
		}
	}
	return nil
}

package exec

import (
	"errors"
	"fmt"

	"qwb/graph"
)

// controlEvals run graphs that are attributes.
var controlEvals = []evaluator{
	{"If", buildIf},
}

// buildIf runs the branch that the condition chooses. Hooks do not see the nodes of branches, whose ids belong to another graph.
func buildIf(n *graph.Node, _ int64) (evalFunc, error) {
	for _, name := range []string{"then_branch", "else_branch"} {
		if a := n.Attr(name); a == nil || a.G == nil || len(a.G.Outputs) < len(n.Outputs) {
			return nil, fmt.Errorf("attribute %s does not give the outputs", name)
		}
	}
	return func(c *call) error {
		cond, ok := c.in(0).Data.([]bool)
		if !ok || len(cond) != 1 {
			return fmt.Errorf("condition %s", c.in(0).Type())
		}
		name, way := "else_branch", 0
		if cond[0] {
			name, way = "then_branch", 1
		}
		outs, err := c.run.inner(c.step, n.Attr(name).G).Run(c.run.ctx, nil, nil)
		c.chose(way)
		for i, t := range outs {
			c.own(i, t)
		}
		return err
	}, nil
}

// inner returns the runner of a subgraph of a step.
func (r *runnerState) inner(st *step, g *graph.Graph) *Runner {
	s := st.subs[g]
	if r.inners == nil {
		r.inners = map[*Session]*Runner{}
	}
	if r.inners[s] == nil {
		r.inners[s] = newRunner(s)
		r.inners[s].outer = r.visible
	}
	r.inners[s].limit, r.inners[s].handed, r.inners[s].chosen = r.mem.limit-r.mem.held, r.handed, r.chosen
	return r.inners[s]
}

// chose tells who wants to know which way an operator with graphs inside went.
func (c *call) chose(way int) {
	if c.run.chosen != nil {
		c.run.chosen(c.node, way)
	}
}

// visible returns the value called name as a subgraph of this graph sees it: a handle without tensor if there is none.
func (r *runnerState) visible(name string) handle {
	if v, ok := r.s.g.Lookup(name); ok && r.vals[v].t != nil {
		return handle{t: r.vals[v].t, buf: noBuf, fixed: r.vals[v].fixed}
	}
	if r.outer != nil {
		return r.outer(name)
	}
	return handle{}
}

// capture puts the values of enclosing graphs in place and returns their shapes.
func (r *runnerState) capture() ([][]int, error) {
	var shapes [][]int
	for _, v := range r.s.outers {
		if r.outer == nil {
			return nil, errors.New("a subgraph cannot be run on its own")
		}
		name := r.s.g.Value(v).Name
		a := r.outer(name)
		if a.t == nil {
			return nil, fmt.Errorf("%q has no value in the enclosing graph", name)
		}
		r.vals[v] = a
		shapes = append(shapes, a.t.Shape)
	}
	return shapes, nil
}

package data

import (
	"context"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// coverage finds what samples leave out of a model: parts of constants that nothing read, and branches of If that were never taken. It runs
// the part of the graph that chooses them, where that is light work. The nil coverage finds nothing.
type coverage struct {
	runner     *exec.Runner
	given      []string // outputs of the runner, then graph inputs, by name: what is looked at
	outputs    int      // of the runner
	readers    []*partRead
	conditions []*branching
}

// partRead is an operator that reads a part of a constant.
type partRead struct {
	node, name       string  // of the operator, and of the constant
	low, high        float64 // of the constant
	readLow, readTop float64
	at               int    // of given: the part
	index            int    // of given: the rows that a Gather takes; -1: they are not counted
	rows             []bool // that were read
}

// branching is an If.
type branching struct {
	node  string
	at    int
	taken [2]int // how often the condition was false, true
}

// readsParts lists operators of whose first input, a constant, the others choose a part.
var readsParts = map[string]bool{"Gather": true, "GatherElements": true, "GatherND": true, "Slice": true, "Compress": true}

// coverageWork is how many multiply-accumulates a sample may cost to find out what it chooses.
const coverageWork = 10_000_000

// mostRows is the largest number of rows of a constant that are counted.
const mostRows = 1 << 22

// newCoverage prepares the examination of g, a model as it was loaded. It is nil where there is nothing to look at.
func newCoverage(g *graph.Graph) *coverage {
	if g == nil || !slices.ContainsFunc(g.Nodes(), func(id graph.NodeID) bool { n := g.Node(id); return n.Op == "If" || readsParts[n.Op] }) {
		return nil
	}
	g = g.Clone()
	if _, err := passes.Run(context.Background(), g, []passes.Pass{passes.ConstantNodes, passes.FoldConstants, passes.NoOps,
		passes.DeadCode}); err != nil {
		return nil
	}
	c := &coverage{}
	var outputs, inputs []graph.ValueID
	// place is where a value will be found among what is looked at: inputs are numbered behind the outputs, below 0 until their number is
	// known.
	place := func(v graph.ValueID) int {
		list, sign := &outputs, 1
		if g.IsInput(v) {
			list, sign = &inputs, -1
		}
		k := slices.Index(*list, v)
		if k < 0 {
			k, *list = len(*list), append(*list, v)
		}
		if sign < 0 {
			return -1 - k
		}
		return k
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if n.Domain != "" || len(n.Inputs) == 0 || len(n.Outputs) == 0 || !light(g, n) {
			continue
		}
		switch t := g.Const(n.Inputs[0]); {
		case n.Op == "If" && t == nil:
			c.conditions = append(c.conditions, &branching{node: n.Name, at: place(n.Inputs[0])})
		case readsParts[n.Op] && t != nil && t.DType.IsFloat() && t.Len() > 1 && !allConstant(g, n):
			r := &partRead{node: n.Name, name: g.Value(n.Inputs[0]).Name, at: place(n.Outputs[0]), index: math.MinInt,
				readLow: math.Inf(1), readTop: math.Inf(-1)}
			r.low, r.high = extremes(t)
			if axis, ok := graph.Axis(n.Axis(), len(t.Shape)); ok && n.Op == "Gather" && t.Shape[axis] <= mostRows {
				r.index, r.rows = place(n.Inputs[1]), make([]bool, t.Shape[axis])
			}
			c.readers = append(c.readers, r)
		}
	}
	if len(c.readers)+len(c.conditions) == 0 {
		return nil
	}
	return c.prepare(g, outputs, inputs)
}

// prepare makes a runner of the part of g that computes outputs.
func (c *coverage) prepare(g *graph.Graph, outputs, inputs []graph.ValueID) *coverage {
	c.outputs = len(outputs)
	for _, at := range c.places() {
		if *at < 0 && *at != math.MinInt {
			*at = c.outputs - 1 - *at
		}
	}
	for _, v := range slices.Concat(outputs, inputs) {
		c.given = append(c.given, g.Value(v).Name)
	}
	if len(outputs) == 0 {
		return c
	}
	part, err := graph.Extract(g, fed(g), outputs)
	if err != nil {
		return nil
	}
	s, err := exec.New(part, exec.Options{Threads: 1})
	if err != nil {
		return nil
	}
	c.runner = s.NewRunner()
	return c
}

// places are all numbers of what is looked at.
func (c *coverage) places() (list []*int) {
	for _, r := range c.readers {
		list = append(list, &r.at, &r.index)
	}
	for _, b := range c.conditions {
		list = append(list, &b.at)
	}
	return list
}

// fed lists the inputs of a graph that are no constants.
func fed(g *graph.Graph) (list []graph.ValueID) {
	for _, v := range g.Inputs {
		if g.Const(v) == nil {
			list = append(list, v)
		}
	}
	return list
}

// allConstant reports whether a node reads constants alone.
func allConstant(g *graph.Graph, n *graph.Node) bool {
	return !slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return v != graph.NoValue && g.Const(v) == nil })
}

// light reports whether what a node chooses by costs little: its condition, or the numbers of what it reads.
func light(g *graph.Graph, n *graph.Node) bool {
	var choose []graph.ValueID
	for i, v := range n.Inputs {
		if v != graph.NoValue && g.Const(v) == nil && (i > 0 || n.Op == "If") {
			choose = append(choose, v)
		}
	}
	part, err := graph.Extract(g, fed(g), choose)
	if err != nil {
		return false
	}
	graph.InferShapes(part)
	work := int64(0)
	for _, id := range part.Nodes() {
		s := part.Node(id).Spec()
		if s == nil || s.Kind == graph.KindRecurrent || len(part.Node(id).Subgraphs()) > 0 {
			return false
		}
		if s.Kind == graph.KindComputing {
			m, ok := part.MACs(id)
			if work += m; !ok || work > coverageWork {
				return false
			}
		}
	}
	return true
}

// extremes are the smallest and the largest finite number of a tensor, infinite the other way round where there is none.
func extremes(t *tensor.Tensor) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range exec.Floats(t.ToRowMajor()).F32() {
		if v-v == 0 {
			low, high = min(low, float64(v)), max(high, float64(v))
		}
	}
	return low, high
}

// observe takes a sample into account. One that does not run is left out: others say why.
func (c *coverage) observe(s *exec.Sample) {
	if c == nil {
		return
	}
	seen := make([]*tensor.Tensor, len(c.given))
	for i, name := range c.given[c.outputs:] {
		seen[c.outputs+i] = s.Feeds[name]
	}
	if c.runner != nil {
		out, err := c.runner.Run(context.Background(), s.Feeds, nil)
		if err != nil {
			return
		}
		copy(seen, out)
	}
	for _, r := range c.readers {
		if t := seen[r.at]; t != nil && t.DType.IsFloat() {
			low, high := extremes(t)
			r.readLow, r.readTop = min(r.readLow, low), max(r.readTop, high)
		}
		if r.index >= 0 && seen[r.index] != nil {
			r.read(seen[r.index].ToRowMajor())
		}
	}
	for _, b := range c.conditions {
		if t := seen[b.at]; t != nil && t.Len() == 1 {
			if x, ok := t.ToRowMajor().Data.([]bool); ok && x[0] {
				b.taken[1]++
			} else {
				b.taken[0]++
			}
		}
	}
}

// read takes the numbers of rows that are read into account; those below 0 count from the end.
func (r *partRead) read(rows *tensor.Tensor) {
	at := func(k int64) {
		if n := int64(len(r.rows)); k < n && k >= -n {
			r.rows[(k+n)%n] = true
		}
	}
	switch d := rows.Data.(type) {
	case []int64:
		for _, k := range d {
			at(k)
		}
	case []int32:
		for _, k := range d {
			at(int64(k))
		}
	}
}

// beyondRead is by how much of what was read a constant has to reach beyond it to be worth a word.
const beyondRead = 0.1

// findings says what was left out.
func (c *coverage) findings() (list []Finding) {
	if c == nil {
		return nil
	}
	for _, r := range c.readers {
		read := r.readTop - r.readLow
		if read < 0 || r.low >= r.readLow-beyondRead*read && r.high <= r.readTop+beyondRead*read {
			continue
		}
		what := fmt.Sprintf("only a part of %q was read: from %.4g to %.4g; all of it reaches from %.4g to %.4g", r.name, r.readLow, r.readTop,
			r.low, r.high)
		if n := count(r.rows, false); n > 0 {
			what = fmt.Sprintf("%d of %d rows of %q were never read: those that were reach from %.4g to %.4g, all of them from %.4g to %.4g",
				n, len(r.rows), r.name, r.readLow, r.readTop, r.low, r.high)
		}
		list = append(list, finding(RuleUnread, Hint, r.node, max(r.readLow-r.low, r.high-r.readTop), "%s", what))
	}
	for _, b := range c.conditions {
		if n := b.taken[0] + b.taken[1]; n > 0 && (b.taken[0] == 0 || b.taken[1] == 0) {
			list = append(list, finding(RuleBranch, Hint, b.node, float64(n),
				"its condition is %t in all of %d samples: the other branch was never run", b.taken[1] > 0, n))
		}
	}
	return list
}

func count(list []bool, x bool) (n int) {
	for _, v := range list {
		if v == x {
			n++
		}
	}
	return n
}

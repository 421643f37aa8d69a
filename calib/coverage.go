package calib

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/tensor"
)

// Coverage finds what samples leave out of a network while it runs: rows of constants that nothing read, branches that were never taken,
// loops that never turned, operands that were never chosen, tensors without elements. What a device computes it does not see. Runs side by
// side may share it.
type Coverage struct {
	g      *graph.Graph
	mu     sync.Mutex
	rows   map[graph.NodeID][]bool  // of a constant that a Gather takes rows of: whether each was read
	picked map[graph.NodeID]*[2]int // elements of the condition of a Where that were false, true
	ways   map[string]*way          // by node, of graphs inside too
	order  []string                 // of ways, as they were met
	again  bool                     // not all samples that the statistics are of were seen
}

// way is how an If, Loop or Scan went.
type way struct {
	op     string
	counts [2]int // runs of an If whose condition was false, true; of a loop: runs without an iteration, and with
}

// NewCoverage prepares the examination of runs of g.
func NewCoverage(g *graph.Graph) *Coverage {
	c := &Coverage{g: g, rows: map[graph.NodeID][]bool{}, picked: map[graph.NodeID]*[2]int{}, ways: map[string]*way{}}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		switch table := readFrom(g, n); {
		case table != nil && n.Op == "Gather":
			if axis, ok := graph.Axis(n.Axis(), len(table.Shape)); ok && table.Shape[axis] <= mostRows && g.Const(n.Inputs[1]) == nil {
				c.rows[id] = make([]bool, table.Shape[axis])
			}
		case n.IsONNX() && n.Op == "Where" && len(n.Inputs) == 3 &&
			!slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return fixed(g, v) }):
			c.picked[id] = new([2]int)
		}
	}
	return c
}

// readsParts lists operators of whose first input, a constant, the others choose a part.
var readsParts = map[string]bool{"Gather": true, "GatherElements": true, "GatherND": true, "Slice": true, "Compress": true}

// mostRows is the largest number of rows of a constant that are counted.
const mostRows = 1 << 22

// readFrom is the constant of floats that a node reads a part of, which samples choose; nil for other nodes.
func readFrom(g *graph.Graph, n *graph.Node) *tensor.Tensor {
	if !n.IsONNX() || !readsParts[n.Op] || len(n.Inputs) < 2 || len(n.Outputs) == 0 {
		return nil
	}
	t := g.Const(n.Inputs[0])
	if t == nil || t.DType != tensor.Float32 || t.Len() < 2 ||
		!slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return v != graph.NoValue && g.Const(v) == nil }) {
		return nil
	}
	return t
}

// fixed reports whether a value is a constant, or one that was given a shape.
func fixed(g *graph.Graph, v graph.ValueID) bool {
	for v != graph.NoValue && g.Const(v) == nil {
		p := g.Producer(v)
		if p == graph.NoNode {
			return false
		}
		switch n := g.Node(p); n.Op {
		case "ConstantOfShape":
			return true
		case "Expand", "Tile", "Reshape", "Unsqueeze", "Squeeze", "Cast", "CastLike", "Identity":
			v = n.Inputs[0]
		default:
			return false
		}
	}
	return true
}

// wants reports whether a value is looked at when it is read.
func (c *Coverage) wants(v graph.ValueID) bool {
	return c != nil && slices.ContainsFunc(c.g.Uses(v), func(u graph.Use) bool { return c.reads(u.Node, u.Index) })
}

// reads reports whether input i of a node says what is chosen.
func (c *Coverage) reads(id graph.NodeID, i int) bool {
	return c.rows[id] != nil && i == 1 || c.picked[id] != nil && i == 0
}

// input looks at what a node reads.
func (c *Coverage) input(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
	id := c.g.Producer(n.Outputs[0])
	if !c.reads(id, i) {
		return t, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch x := t.Data.(type) { // which element is where does not matter
	case []bool:
		for _, yes := range x {
			c.picked[id][one(yes)]++
		}
	case []int64:
		mark(c.rows[id], x)
	case []int32:
		mark(c.rows[id], x)
	}
	return t, nil
}

// mark marks rows that are read; numbers below 0 count from the end.
func mark[T int32 | int64](rows []bool, at []T) {
	for _, k := range at {
		if n := int64(len(rows)); int64(k) < n && int64(k) >= -n {
			rows[(int64(k)+n)%n] = true
		}
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// chose takes into account how an operator with graphs inside went.
func (c *Coverage) chose(n *graph.Node, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.ways[n.Name]
	if w == nil {
		w = &way{op: n.Op}
		c.ways[n.Name], c.order = w, append(c.order, n.Name)
	}
	w.counts[one(times > 0)]++
}

// beyondRead is by how much of what was read a constant has to reach beyond it to be worth a word.
const beyondRead = 0.1

// Findings says what was left out; stats are those of the runs.
func (c *Coverage) Findings(stats *Stats) (list []data.Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	order, _ := c.g.Order() // it has run
	for _, id := range order {
		n := c.g.Node(id)
		if t := readFrom(c.g, n); t != nil {
			list = append(list, c.unread(n, t, stats)...)
		}
		if p := c.picked[id]; p != nil && (p[0] == 0) != (p[1] == 0) {
			list = append(list, data.NewFinding(data.RuleBranch, data.Hint, n.Name, float64(p[0]+p[1]),
				"its condition is %t for every element of all samples: the other operand was never taken", p[1] > 0))
		}
	}
	slices.Sort(c.order) // runs side by side meet them in any order
	for _, name := range c.order {
		list = append(list, c.ways[name].findings(name)...)
	}
	return append(list, c.empty(order, stats)...)
}

// unread says that a constant reaches farther than what node n read of it.
func (c *Coverage) unread(n *graph.Node, t *tensor.Tensor, stats *Stats) []data.Finding {
	seen := stats.Tensor(c.g.Value(n.Outputs[0]).Name)
	if seen == nil || seen.State.Extent().Empty() {
		return nil
	}
	low, high := extremes(t.F32())
	readLow, readTop := float64(seen.State.Extent().Min), float64(seen.State.Extent().Max)
	read := readTop - readLow
	if low >= readLow-beyondRead*read && high <= readTop+beyondRead*read {
		return nil
	}
	name := c.g.Value(n.Inputs[0]).Name
	what := fmt.Sprintf("only a part of %q was read: from %.4g to %.4g; all of it reaches from %.4g to %.4g", name, readLow, readTop,
		low, high)
	if rows := c.rows[c.g.Producer(n.Outputs[0])]; !c.again && slices.Contains(rows, true) && slices.Contains(rows, false) {
		left := 0
		for _, yes := range rows {
			left += 1 - one(yes)
		}
		what = fmt.Sprintf("%d of %d rows of %q were never read: those that were reach from %.4g to %.4g, all of them from %.4g to %.4g",
			left, len(rows), name, readLow, readTop, low, high)
	}
	return []data.Finding{data.NewFinding(data.RuleUnread, data.Hint, n.Name, max(readLow-low, high-readTop), "%s", what)}
}

// extremes are the smallest and the largest finite number, infinite the other way round where there is none.
func extremes(x []float32) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range x {
		if v-v == 0 {
			low, high = min(low, float64(v)), max(high, float64(v))
		}
	}
	return low, high
}

func (w *way) findings(name string) []data.Finding {
	n := w.counts[0] + w.counts[1]
	switch {
	case w.op == "If" && (w.counts[0] == 0) != (w.counts[1] == 0):
		return []data.Finding{data.NewFinding(data.RuleBranch, data.Hint, name, float64(n),
			"its condition is %t in all of %d runs: the other branch was never run", w.counts[1] > 0, n)}
	case w.op != "If" && w.counts[1] == 0:
		return []data.Finding{data.NewFinding(data.RuleBranch, data.Hint, name, float64(n),
			"its body was not run once in %d runs: there was nothing to go through, or its condition was false at first", n)}
	}
	return nil
}

// empty says where tensors begin to have no element, in any sample, though what they are made of has some and their shape may.
func (c *Coverage) empty(order []graph.NodeID, stats *Stats) (list []data.Finding) {
	none := func(v graph.ValueID) bool {
		if v == graph.NoValue || c.g.Const(v) != nil {
			return false
		}
		t := stats.Tensor(c.g.Value(v).Name)
		return t != nil && t.State.Count()+t.State.Infinite() == 0 && t.State.NaN() == 0
	}
	for _, id := range order {
		n := c.g.Node(id)
		for _, v := range n.Outputs {
			if none(v) && !slices.ContainsFunc(n.Inputs, none) &&
				!slices.ContainsFunc(c.g.Value(v).Shape, func(d graph.Dim) bool { return d.N == 0 }) {
				list = append(list, data.NewFinding(data.RuleEmpty, data.Hint, n.Name, float64(stats.Samples()),
					"its result has no element in any of %d samples", stats.Samples()))
				break
			}
		}
	}
	return list
}

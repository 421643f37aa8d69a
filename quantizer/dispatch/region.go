package dispatch

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Border is a tensor that has to be converted between float and integers.
type Border struct {
	Value    graph.ValueID
	Elements int64 // those observed of an open size, where there are any; else dimensions that are not known count as 1
	Known    bool  // whether they were observed, or all of them but the batch are known
	ToFloat  bool  // computed on integers and read as float; otherwise the other way round
}

// Borders lists the conversions, in the order in which their tensors are computed; graph inputs come first.
func (a *Assignment) Borders() []Border {
	g := a.bound.Graph
	var list []Border
	for _, v := range g.Inputs {
		if g.Const(v) == nil && a.border(v) {
			list = append(list, a.newBorder(v))
		}
	}
	for _, id := range a.bound.Order {
		for _, v := range g.Node(id).Outputs {
			if v != graph.NoValue && a.border(v) {
				list = append(list, a.newBorder(v))
			}
		}
	}
	return list
}

// BordersOf lists the conversions between float and integers of a graph whose nodes have these domains, by NodeID, as Borders does; order
// is that of the graph.
func BordersOf(g *graph.Graph, order []graph.NodeID, domains []tqc.Domain) []Border {
	return (&Assignment{Domains: domains, bound: &target.Bound{Graph: g, Order: order}}).Borders()
}

func (a *Assignment) newBorder(v graph.ValueID) Border {
	n, known := a.elements(v)
	p := a.bound.Graph.Producer(v)
	return Border{Value: v, Elements: n, Known: known, ToFloat: p != graph.NoNode && a.integer(p)}
}

// border reports whether v is read on another side than it is computed on.
func (a *Assignment) border(v graph.ValueID) bool {
	g := a.bound.Graph
	if !target.IsFloat(g, v) {
		return false
	}
	p := g.Producer(v)
	from := p != graph.NoNode && a.integer(p)
	if from && (g.IsOutput(v) || g.Captured(v)) {
		return true
	}
	for _, u := range g.Uses(v) {
		if a.Domains[u.Node] == tqc.DomainSOI || !target.DataInput(g, u.Node, u.Index) {
			continue
		}
		if a.integer(u.Node) != from {
			return true
		}
	}
	return false
}

// Work returns the multiply-accumulates of the operators that run on integers, and of all operators.
func (a *Assignment) Work() (integer, total int64) {
	for _, id := range a.bound.Order {
		n, _ := a.bound.Graph.MACsAtLeast(id)
		total += n
		if a.integer(id) {
			integer += n
		}
	}
	return integer, total
}

// dropUnprofitable turns those connected integer regions back to float whose multiply-accumulates, of what integers make faster, are not
// more than the elements at their borders times cost, and in which nobody forced a node to integers. Regions do not touch each other, so
// one round is enough.
func (a *Assignment) dropUnprofitable(cost float64, marks []mark) {
	if cost <= 0 {
		return
	}
	region, count := a.regions()
	type sums struct {
		macs, elements int64
		stays          bool // whatever it costs
	}
	of := make([]sums, count)
	for _, id := range a.bound.Order {
		if a.integer(id) {
			n, known := a.macs(id)
			if !a.slow(id) {
				of[region[id]].macs += n
			}
			of[region[id]].stays = of[region[id]].stays || !known || marks[id].forced
		}
	}
	for _, brd := range a.Borders() {
		if brd.ToFloat && a.bound.Target.Export.RoundsPools && a.pooled(brd.Value) {
			continue
		}
		for _, r := range a.touching(brd, region) {
			of[r].elements += brd.Elements
			of[r].stays = of[r].stays || !brd.Known
		}
	}
	for _, id := range a.bound.Order {
		if !a.integer(id) {
			continue
		}
		s := of[region[id]]
		if s.stays || float64(s.macs) > float64(s.elements)*cost {
			continue
		}
		a.Domains[id], a.Fused[id] = tqc.DomainFP32, graph.NoNode
		a.Why[id] = fmt.Sprintf("%s: %d multiply-accumulates do not pay for converting %d elements", ByCost, s.macs, s.elements)
	}
}

// slow reports whether an operator on integers takes no less time than in float.
func (a *Assignment) slow(id graph.NodeID) bool {
	n := a.bound.Graph.Node(id)
	if !a.bound.Target.Export.SlowDepthwise || n.Op != "Conv" {
		return false
	}
	w, ok := a.bound.Graph.Value(n.Input(graph.WeightInput)).Shape.Ints()
	l, known := graph.LinearOf(n, graph.WeightInput, w)
	return ok && known && l.In == l.Groups && l.Out == l.Groups
}

// pooled reports whether all that reads v, by operators in float with constants beside it, are MaxPools in float in front of integers.
func (a *Assignment) pooled(v graph.ValueID) bool {
	g := a.bound.Graph
	uses := g.Uses(v)
	for _, u := range uses {
		n := g.Node(u.Node)
		if a.integer(u.Node) || len(n.Outputs) != 1 || g.IsOutput(n.Outputs[0]) || g.Captured(n.Outputs[0]) {
			return false
		}
		for i, x := range n.Inputs {
			if i != u.Index && x != graph.NoValue && g.Const(x) == nil {
				return false
			}
		}
		if n.Op == "MaxPool" {
			for _, next := range g.Uses(n.Outputs[0]) {
				if !a.integer(next.Node) {
					return false
				}
			}
		} else if !a.pooled(n.Outputs[0]) {
			return false
		}
	}
	return len(uses) > 0
}

// touching returns the regions on the integer side of a border, each once.
func (a *Assignment) touching(b Border, region []int) []int {
	if b.ToFloat {
		return []int{region[a.bound.Graph.Producer(b.Value)]}
	}
	var list []int
	for _, u := range a.bound.Graph.Uses(b.Value) {
		if a.integer(u.Node) && !contains(list, region[u.Node]) {
			list = append(list, region[u.Node])
		}
	}
	return list
}

func contains(list []int, x int) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// regions numbers the connected components of integer nodes by their first node in order; other nodes have -1.
func (a *Assignment) regions() (region []int, count int) {
	g := a.bound.Graph
	region = make([]int, g.NumNodes())
	for i := range region {
		region[i] = -1
	}
	for _, first := range a.bound.Order {
		if !a.integer(first) || region[first] >= 0 {
			continue
		}
		region[first] = count
		for stack := []graph.NodeID{first}; len(stack) > 0; {
			id := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			visit := func(next graph.NodeID) {
				if next != graph.NoNode && a.integer(next) && region[next] < 0 {
					region[next] = count
					stack = append(stack, next)
				}
			}
			for _, v := range g.Node(id).Inputs {
				visit(g.Producer(v))
			}
			for _, v := range g.Node(id).Outputs {
				if v == graph.NoValue {
					continue
				}
				for _, u := range g.Uses(v) {
					visit(u.Node)
				}
			}
		}
		count++
	}
	return region, count
}

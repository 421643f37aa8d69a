package passes

import (
	"qwb/graph"
	"qwb/graph/pattern"
)

// Transposes removes transpositions that change nothing and makes one of two in a row.
var Transposes = Pass{
	Name:  "transposes",
	Doc:   "Removes Transpose that changes nothing, alone or with the Transpose before it; makes one of two.",
	sweep: each(transposeNothing, at("x = Transpose(u)\ny = Transpose(x)", transposeTwice)),
}

func transposeNothing(c *Context, id graph.NodeID) (*Patch, error) {
	n := c.G.Node(id)
	if n.Op != "Transpose" || !n.IsONNX() || !identityPerm(n.AttrInts("perm")) || c.G.Const(n.Input(0)) != nil {
		return nil, nil
	}
	return c.bypass(id, n.Input(0), "Transpose that changes nothing")
}

func identityPerm(perm []int64) bool {
	for i, p := range perm {
		if p != int64(i) {
			return false
		}
	}
	return perm != nil
}

func transposeTwice(c *Context, m *pattern.Match) (*Patch, error) {
	first, second := c.G.Node(m.Node("x")).AttrInts("perm"), c.G.Node(m.Root).AttrInts("perm")
	rank := max(len(first), len(second))
	if rank == 0 { // both reverse the axes
		if c.G.IsOutput(m.Value("y")) {
			return nil, decline("the rank is not known and %q keeps its name", c.G.Value(m.Value("y")).Name)
		}
		p := &Patch{What: "two Transposes that cancel"}
		p.Drop(m.Node("x"), m.Root)
		p.Move(m.Value("y"), m.Value("u"))
		return p, nil
	}
	if first == nil {
		first = reversed(rank)
	}
	if second == nil {
		second = reversed(rank)
	}
	perm := make([]int64, rank)
	for i, s := range second {
		if len(first) != len(second) || s < 0 || s >= int64(rank) {
			return nil, decline("perm %v after perm %v", second, first)
		}
		perm[i] = first[s]
	}
	p := &Patch{What: "one Transpose for two"}
	p.Drop(m.Node("x"), m.Root)
	if identityPerm(perm) && !c.G.IsOutput(m.Value("y")) {
		p.What = "two Transposes that cancel"
		p.Move(m.Value("y"), m.Value("u"))
		return p, nil
	}
	next := *c.G.Node(m.Root)
	next.Inputs = []graph.ValueID{m.Value("u")}
	next.Attrs = []graph.Attr{graph.Ints("perm", perm...)}
	p.Add(next)
	return p, nil
}

func reversed(rank int) []int64 {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(rank - 1 - i)
	}
	return perm
}

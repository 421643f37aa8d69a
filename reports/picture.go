package reports

import (
	"strings"
	"unicode/utf8"

	"qwb/analysis"
	"qwb/reports/layout"
)

// Picture is a network with coordinates, for whoever draws it.
type Picture struct {
	analysis.Topology
	// Levels are the whole network and the inside of every block, each with the blocks in it closed: Levels[0] is the whole, Levels[b+1] is
	// block b. Who opens a block in place makes room for its level.
	Levels []Level `json:"levels"`
}

// Level is what one block holds, or the whole network. It begins at (0, 0) and has W by H pixels.
type Level struct {
	Block int         `json:"block"` // -1: the whole network
	W     int         `json:"w"`
	H     int         `json:"h"`
	Items []LevelItem `json:"items"`
	Links []LevelLink `json:"links"`
	// Enter and Leave are links from what is around the block, and to it: From is -1 of the first and To of the second. They begin at the
	// upper edge, at (Top, 0), and end at the lower one, at (Bottom, H).
	Enter  []LevelLink `json:"enter,omitempty"`
	Leave  []LevelLink `json:"leave,omitempty"`
	Top    int         `json:"top"`
	Bottom int         `json:"bottom"`
}

// LevelItem is an operator, with those of its block that are fused into it, or a closed block; the other is -1. X and Y are its upper left
// corner; items with equal Layer stand beside each other.
type LevelItem struct {
	Node  int `json:"node"`  // index in Topology.Nodes
	Block int `json:"block"` // index in Topology.Blocks
	X     int `json:"x"`
	Y     int `json:"y"`
	W     int `json:"w"`
	H     int `json:"h"`
	Layer int `json:"layer"`
}

// LevelLink is all tensors from one item to another. It goes from the lower edge of one through the bends to the upper edge of the other.
type LevelLink struct {
	From  int      `json:"from"` // index in Items
	To    int      `json:"to"`
	Bends [][3]int `json:"bends"` // x, y, layer
	Edges []int    `json:"edges"` // indices in Topology.Edges
}

// How large a box is: two lines of text with room beside them. Names that are longer are cut off by who draws.
const (
	letterWidth  = 8
	boxPadding   = 24
	narrowestBox = 110
	widestBox    = 220
	boxHeight    = 44
	endHeight    = 30 // of an input or output of the network
	blockHeight  = 52
)

func boxWidth(lines ...string) int {
	most := 0
	for _, s := range lines {
		most = max(most, utf8.RuneCountInString(s))
	}
	return min(max(most*letterWidth+boxPadding, narrowestBox), widestBox) &^ 1
}

// NewPicture lays out a topology: the same one gives the same picture.
func NewPicture(t *analysis.Topology) *Picture {
	p := &Picture{Topology: *t, Levels: make([]Level, len(t.Blocks)+1)}
	for i := range p.Levels {
		p.Levels[i] = Level{Block: i - 1, Items: []LevelItem{}, Links: []LevelLink{}}
	}
	// item[i] is where node i, and block b at len(Nodes)+b, stands in its level.
	item := make([]int, len(t.Nodes)+len(t.Blocks))
	in := func(i int) int { // the block around a node or block
		if i < len(t.Nodes) {
			return t.Nodes[i].Block
		}
		return t.Blocks[i-len(t.Nodes)].Parent
	}
	parts := make([][]string, len(t.Nodes)) // the types of the operators in one box
	root := make([]int, len(t.Nodes))
	for i := range t.Nodes {
		if root[i] = i; t.Nodes[i].Fused >= 0 && t.Nodes[t.Nodes[i].Fused].Block == t.Nodes[i].Block {
			root[i] = t.Nodes[i].Fused
		}
	}
	for i, r := range root {
		parts[r] = append(parts[r], t.Nodes[i].Op)
	}
	seen := make([]bool, len(t.Blocks))
	var place func(i int)
	place = func(i int) { // a block stands where its first node does
		b := in(i)
		if b >= 0 && !seen[b] {
			seen[b] = true
			place(len(t.Nodes) + b)
		}
		l := &p.Levels[b+1]
		it := LevelItem{Node: -1, Block: -1}
		if i < len(t.Nodes) {
			n := &t.Nodes[i]
			it.Node, it.W, it.H = i, boxWidth(n.Name, strings.Join(parts[i], " + ")+"   0.0012"), boxHeight
			if n.Op == "Input" || n.Op == "Output" {
				it.H = endHeight
			}
		} else {
			it.Block, it.W, it.H = i-len(t.Nodes), boxWidth(t.Blocks[i-len(t.Nodes)].Name+"      "), blockHeight
		}
		item[i] = len(l.Items)
		l.Items = append(l.Items, it)
	}
	for i := range t.Nodes {
		if root[i] == i {
			place(i)
		}
	}
	for i, r := range root {
		item[i] = item[r]
	}
	p.link(item, in)
	for i := range p.Levels {
		p.Levels[i].draw()
	}
	return p
}

// link adds every edge to the levels through which it goes.
func (p *Picture) link(item []int, in func(int) int) {
	type pair struct{ level, from, to int }
	known := map[pair]int{}
	add := func(k pair, e int) {
		l := &p.Levels[k.level]
		list := &l.Links
		if k.from < 0 {
			list = &l.Enter
		} else if k.to < 0 {
			list = &l.Leave
		}
		at, ok := known[k]
		if !ok {
			at = len(*list)
			known[k] = at
			*list = append(*list, LevelLink{From: k.from, To: k.to, Bends: [][3]int{}})
		}
		(*list)[at].Edges = append((*list)[at].Edges, e)
	}
	depth := make([]int, len(p.Blocks)+1) // of block b at b+1
	for b := range p.Blocks {
		depth[b+1] = depth[p.Blocks[b].Parent+1] + 1
	}
	for e, edge := range p.Edges {
		from, to := edge.From, edge.To
		if in(from) == in(to) && item[from] == item[to] {
			continue // within a box
		}
		for in(from) != in(to) {
			if depth[in(from)+1] >= depth[in(to)+1] {
				add(pair{in(from) + 1, item[from], -1}, e)
				from = len(p.Nodes) + in(from)
			} else {
				add(pair{in(to) + 1, -1, item[to]}, e)
				to = len(p.Nodes) + in(to)
			}
		}
		add(pair{in(from) + 1, item[from], item[to]}, e)
	}
}

// draw gives the items of a level their places and the links their bends.
func (l *Level) draw() {
	sizes := make([]layout.Size, len(l.Items), len(l.Items)+2)
	for i, it := range l.Items {
		sizes[i] = layout.Size{W: it.W, H: it.H}
	}
	ports := layout.Without
	if l.Block >= 0 {
		ports = layout.Ports{First: len(sizes), Last: len(sizes) + 1}
		sizes = append(sizes, layout.Size{}, layout.Size{})
	}
	var edges [][2]int
	var links []*LevelLink
	for _, list := range [][]LevelLink{l.Links, l.Enter, l.Leave} {
		for i := range list {
			k := &list[i]
			e := [2]int{k.From, k.To}
			if k.From < 0 {
				e[0] = ports.First
			}
			if k.To < 0 {
				e[1] = ports.Last
			}
			edges, links = append(edges, e), append(links, k)
		}
	}
	d := layout.Draw(sizes, edges, ports)
	l.W, l.H = d.W, d.H
	for i := range l.Items {
		it, at := &l.Items[i], d.Places[i]
		it.X, it.Y, it.Layer = at.X, at.Y, at.Layer
	}
	for i, k := range links {
		for _, b := range d.Bends[i] {
			k.Bends = append(k.Bends, [3]int{b.X, b.Y, b.Layer})
		}
	}
	if l.Block >= 0 {
		l.Top, l.Bottom = d.Places[ports.First].X, d.Places[ports.Last].X
	}
}

package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/internal/arrange"
)

// What a block is: not so small that a box would not pay, nor most of the graph.
const (
	fewestInBlock  = 3
	largestShare   = 0.6 // of the graph's operators; repeats may be more
	sameShare      = 0.8 // of its parent's operators: then the two are one block
	deepestScope   = 8
	longestUnit    = 32 // parts of one unit of a repeat
	fewestRepeats  = 3
	longestPattern = 96 // operators of a pattern together with what leads to it
)

// folding finds the blocks of a graph. A block is an interval of the canonical order, less what can be computed before it and is read
// outside too; so blocks drawn as boxes never form a cycle. Places in the order stand for operators.
type folding struct {
	g        *graph.Graph
	order    []graph.NodeID
	from, to [][]int // what an operator reads from, and what reads it
	// trunk holds for operators that multiply, or come after one that does: the others (masks, shapes, positions) lead along the trunk and say
	// nothing about how it is built.
	trunk  []bool
	parts  []part
	block  []int // by place: the innermost part, -1 for none
	hoists []int // by place: where the interval begins in front of which it is computed, -1 for none
}

// part is a block while blocks are looked for.
type part struct {
	name, kind string
	lo, hi     int // places, both included
	parent     int
	repeat     int
}

func newFolding(g *graph.Graph, order []graph.NodeID, inputs [][]int) *folding {
	n := len(order)
	f := &folding{g: g, order: order, from: make([][]int, n), to: make([][]int, n), trunk: make([]bool, n), block: make([]int, n),
		hoists: make([]int, n)}
	any := false
	for i, id := range order {
		for _, p := range inputs[i] {
			if p >= 0 {
				f.from[i] = append(f.from[i], p)
				f.to[p] = append(f.to[p], i)
				f.trunk[i] = f.trunk[i] || f.trunk[p]
			}
		}
		kind := kindOf(g.Node(id))
		f.trunk[i] = kind == graph.KindComputing || kind == graph.KindRecurrent || f.trunk[i] && kind != graph.KindShape
		any = any || f.trunk[i]
		f.block[i], f.hoists[i] = -1, -1
	}
	for i := range f.trunk {
		f.trunk[i] = f.trunk[i] || !any
	}
	return f
}

// fold finds the blocks; block then has indices in them.
func (f *folding) fold() []Block {
	dominator := f.dominators(f.from, false)
	f.choose(f.scopes())
	f.choose(f.patterns(dominator))
	f.choose(f.regions(dominator))
	f.merge()
	f.hoist()
	f.repeats()
	return f.result()
}

// choose adds those candidates that lie inside of, around or beside the parts that are there, the longest first.
func (f *folding) choose(candidates []part) {
	arrange.Stable(candidates, func(a, b part) int { return cmp.Compare(b.hi-b.lo, a.hi-a.lo) })
	before := slices.Clone(f.block)
	known := len(f.parts)
	inner := slices.Repeat([]int{-1}, len(f.order)) // of those added here
	for _, c := range candidates {
		if n := c.hi - c.lo + 1; n < fewestInBlock || float64(n) > largestShare*float64(len(f.order)) || inner[c.lo] != inner[c.hi] {
			continue
		}
		crosses := false
		for b := before[c.lo]; b >= 0 && f.parts[b].hi < c.hi; b = f.parts[b].parent {
			crosses = crosses || f.parts[b].lo < c.lo
		}
		for b := before[c.hi]; b >= 0 && f.parts[b].lo > c.lo; b = f.parts[b].parent {
			crosses = crosses || f.parts[b].hi > c.hi
		}
		if crosses {
			continue
		}
		for i := c.lo; i <= c.hi; i++ {
			inner[i] = len(f.parts)
		}
		f.parts = append(f.parts, c)
	}
	if len(f.parts) > known {
		f.tree()
	}
}

// tree sorts the parts, outer ones and earlier ones first, and finds parents and the innermost part of every operator.
func (f *folding) tree() {
	arrange.Stable(f.parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi)) })
	open := -1
	for i, b := 0, 0; i < len(f.order); i++ {
		for open >= 0 && f.parts[open].hi < i {
			open = f.parts[open].parent
		}
		for ; b < len(f.parts) && f.parts[b].lo == i; b++ {
			f.parts[b].parent, open = open, b
		}
		f.block[i] = open
	}
}

// nesting are the kinds of parts in which there may be others. What else is folded is known by its name, and what is in it is no news.
var nesting = []string{"scope", "residual", "branch", "attention"}

// merge removes parts that are nearly all of the part around them, which takes over what they say about its kind, and parts of
// idioms.
func (f *folding) merge() {
	kept := make([]part, 0, len(f.parts))
	at := make([]int, len(f.parts)) // in kept: the part itself, or the one that it became
	for i, p := range f.parts {
		if p.parent >= 0 {
			outer := &kept[at[p.parent]]
			if !slices.Contains(nesting, outer.kind) {
				at[i] = at[p.parent]
				continue
			}
			if float64(p.hi-p.lo+1) >= sameShare*float64(outer.hi-outer.lo+1) {
				at[i] = at[p.parent]
				if p.kind != "scope" {
					outer.kind = p.kind
				}
				continue
			}
		}
		at[i] = len(kept)
		kept = append(kept, p)
	}
	f.parts = kept
	f.tree()
}

// hoist takes operators out of parts that they do not hang on, if they are read outside as well.
func (f *folding) hoist() {
	for i := range f.order {
		for b := f.block[i]; b >= 0; b = f.parts[b].parent {
			p := &f.parts[b]
			if slices.ContainsFunc(f.from[i], func(s int) bool { return f.inside(s, b) }) ||
				!slices.ContainsFunc(f.to[i], func(r int) bool { return r > p.hi }) {
				break
			}
			f.block[i], f.hoists[i] = p.parent, p.lo
		}
	}
}

// inside reports whether an operator stands in part b or in one in it.
func (f *folding) inside(i, b int) bool {
	for in := f.block[i]; in >= 0; in = f.parts[in].parent {
		if in == b {
			return true
		}
	}
	return false
}

// dominators returns by place the last operator of the trunk that all ways along the trunk pass on their way to it, -1 for none; backwards:
// the first that all ways from it pass. reads are the ends of edges that lead to an operator.
func (f *folding) dominators(reads [][]int, backwards bool) []int {
	n := len(f.order)
	parent, jump, depth := make([]int, n+1), make([]int, n+1), make([]int, n+1) // place i+1; 0 is outside of the graph
	for k := range n {
		i := k
		if backwards {
			i = n - 1 - k
		}
		if !f.trunk[i] {
			continue
		}
		common := -1
		for _, s := range reads[i] {
			if !f.trunk[s] {
				continue
			}
			a, b := s+1, common
			if b < 0 {
				common = a
				continue
			}
			if depth[a] < depth[b] {
				a, b = b, a
			}
			for depth[a] > depth[b] {
				if depth[jump[a]] >= depth[b] {
					a = jump[a]
				} else {
					a = parent[a]
				}
			}
			for a != b {
				if jump[a] != jump[b] {
					a, b = jump[a], jump[b]
				} else {
					a, b = parent[a], parent[b]
				}
			}
			common = a
		}
		p := max(common, 0)
		parent[i+1], depth[i+1], jump[i+1] = p, depth[p]+1, p
		if j := jump[p]; depth[p]-depth[j] == depth[j]-depth[jump[j]] {
			jump[i+1] = jump[j]
		}
	}
	list := make([]int, n)
	for i := range list {
		list[i] = parent[i+1] - 1
	}
	return list
}

// regions are where ways along the trunk part at one operator and meet at another, with the activation that follows.
func (f *folding) regions(dominator []int) []part {
	meets := f.dominators(f.to, true)
	var list []part
	for x := range f.order {
		y := meets[x]
		if !f.trunk[x] || len(f.to[x]) < 2 || y < 0 || dominator[y] != x {
			continue
		}
		kind := "branch"
		switch op := f.g.Node(f.order[y]).Op; {
		case op == "Add" || op == "Sum":
			kind = "residual"
		case op == "MatMul" && slices.ContainsFunc(f.order[x:y], func(id graph.NodeID) bool { return kindOf(f.g.Node(id)) == graph.KindSoftmax }):
			kind = "attention"
		}
		hi := y
		if len(f.to[y]) == 1 && f.to[y][0] == y+1 && kindOf(f.g.Node(f.order[y+1])) == graph.KindActivation {
			hi++
		}
		list = append(list, part{name: f.name(x+1, hi), kind: kind, lo: x + 1, hi: hi, repeat: 1})
	}
	return list
}

// patterns are the idioms that targets know, attention together with what leads to it from one operator.
func (f *folding) patterns(dominator []int) []part {
	at := make([]int, f.g.NumNodes())
	for i, id := range f.order {
		at[id] = i
	}
	var list []part
	for _, m := range pattern.Cover(f.g, pattern.Families...) {
		lo, hi := len(f.order), 0
		for _, id := range m.Nodes {
			lo, hi = min(lo, at[id]), max(hi, at[id])
		}
		if x := dominator[hi]; m.Family == pattern.Attention && x >= 0 && hi-x <= longestPattern {
			lo = x + 1
		}
		list = append(list, part{name: f.name(lo, hi), kind: strings.ToLower(m.Family.Name), lo: lo, hi: hi, repeat: 1})
	}
	return list
}

// scopes are runs of operators whose names begin alike, up to a slash (or, in names without, a dot).
func (f *folding) scopes() []part {
	type run struct {
		lo, hi, count, trunk int // trunk: how many operators of it stand up to hi
	}
	type scope struct {
		name  string
		count int
		runs  []run
	}
	known := map[string]*scope{}
	var all []*scope
	trunk := 0
	for i, id := range f.order {
		name := f.g.Node(id).Name
		separator := byte('/')
		if !strings.Contains(name, "/") {
			separator = '.'
		}
		depth := 0
		for k := 1; k < len(name) && depth < deepestScope; k++ {
			if name[k] != separator {
				continue
			}
			depth++
			sc := known[name[:k]]
			if sc == nil {
				sc = &scope{name: name[:k]}
				known[name[:k]], all = sc, append(all, sc)
			}
			if last := len(sc.runs) - 1; last < 0 || sc.runs[last].trunk != trunk { // something of the trunk stands between
				sc.runs = append(sc.runs, run{lo: i, trunk: trunk})
			}
			r := &sc.runs[len(sc.runs)-1]
			r.hi, r.trunk = i, trunk
			r.count++
			sc.count++
			if f.trunk[i] {
				r.trunk++
			}
		}
		if f.trunk[i] {
			trunk++
		}
	}
	var list []part
	for _, sc := range all {
		if float64(sc.count) > largestShare*float64(len(f.order)) {
			continue
		}
		for _, r := range sc.runs {
			if r.count >= fewestInBlock && 2*r.count >= sc.count { // no splinter
				list = append(list, part{name: strings.TrimLeft(sc.name, "/"), kind: "scope", lo: r.lo, hi: r.hi, repeat: 1})
			}
		}
	}
	return list
}

// name is what a part without a name of its own is called: what the names of its operators, and of none beside it, begin with, or else the
// last of them that is no activation.
func (f *folding) name(lo, hi int) string {
	name := func(i int) string { return f.g.Node(f.order[i]).Name }
	common := name(hi)
	for i := lo; i < hi; i++ {
		if !f.trunk[i] {
			continue
		}
		n, other := 0, name(i)
		for n < len(common) && n < len(other) && common[n] == other[n] {
			n++
		}
		common = common[:n]
	}
	cut := strings.Trim(common[:max(strings.LastIndexAny(common, "/._-"), 0)], "/._-")
	beside := func(i int) bool { return i >= 0 && i < len(f.order) && strings.Contains(name(i), cut) }
	if len(cut) >= 3 && !beside(lo-1) && !beside(hi+1) {
		return cut
	}
	for hi > lo && kindOf(f.g.Node(f.order[hi])) == graph.KindActivation {
		hi--
	}
	return name(hi)
}

// kindOf is the kind of an operator, KindOther of one that is not known.
func kindOf(n *graph.Node) graph.Kind {
	if spec := n.Spec(); spec != nil {
		return spec.Kind
	}
	return graph.KindOther
}

// item is what a level shows: an operator or a part.
type item struct {
	at, then int // where it stands; then: among those at one place
	op, part int // -1 where it is the other
	likeness int // equal for items that look alike
	size     int // operators in it
}

// repeats folds what follows on itself, in all parts, the inner ones first.
func (f *folding) repeats() {
	levels := make([][]item, len(f.parts)+1) // level p+1 is inside of part p
	for i, b := range f.block {
		it := item{at: i, op: i, part: -1, size: 1}
		if f.hoists[i] >= 0 {
			it.at, it.then = f.hoists[i], i-len(f.order)
		}
		levels[b+1] = append(levels[b+1], it)
	}
	likeness := map[string]int{}
	like := func(key string) int {
		if n, ok := likeness[key]; ok {
			return n
		}
		likeness[key] = len(likeness) + 1
		return likeness[key]
	}
	for b := len(f.parts) - 1; b >= -1; b-- { // parts in a part come after it
		items := levels[b+1]
		slices.SortFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.then, b.then)) })
		var key strings.Builder
		size := 0
		for k := range items {
			if it := &items[k]; it.op >= 0 {
				n := f.g.Node(f.order[it.op])
				it.likeness = like(opName(n) + f.shapes(n))
			}
			fmt.Fprint(&key, items[k].likeness, " ")
			size += items[k].size
		}
		f.foldLevel(b, items)
		if b >= 0 {
			p := &f.parts[b]
			levels[p.parent+1] = append(levels[p.parent+1], item{at: p.lo, op: -1, part: b, likeness: like(p.kind + key.String()), size: size})
		}
	}
}

// shapes are those of the outputs of a node and of the constants that it reads.
func (f *folding) shapes(n *graph.Node) string {
	var b strings.Builder
	for _, v := range n.Inputs {
		if t := f.g.Const(v); t != nil {
			fmt.Fprint(&b, t.Shape)
		}
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue {
			fmt.Fprint(&b, " ", f.g.Value(v).Shape)
		}
	}
	return b.String()
}

// foldLevel folds the repeats among the items of a part.
func (f *folding) foldLevel(parent int, items []item) {
	// same[p][i] says for how many items from i on the one p further is alike.
	same := make([][]int, longestUnit+1)
	for p := 1; p <= longestUnit; p++ {
		same[p] = make([]int, len(items)+1)
		for i := len(items) - 1 - p; i >= 0; i-- {
			if items[i].likeness == items[i+p].likeness {
				same[p][i] = same[p][i+1] + 1
			}
		}
	}
	for i := 0; i < len(items); {
		period, covered := 0, 0
		for p := 1; p <= longestUnit && i+p <= len(items); p++ {
			size := 0
			for _, it := range items[i : i+p] {
				size += it.size
			}
			n := same[p][i]/p + 1
			if n >= fewestRepeats && n*p > covered && (size >= fewestInBlock || size > 1 && n*size >= 4*fewestInBlock) {
				period, covered = p, n*p
			}
		}
		if period == 0 || items[i].op >= 0 && kindOf(f.g.Node(f.order[items[i].op])) == graph.KindActivation {
			// that ends a unit, and begins none
			i++
			continue
		}
		outer := len(f.parts)
		f.parts = append(f.parts, part{kind: "repeat", parent: parent, repeat: covered / period})
		var first, last string
		for k := i; k < i+covered; k += period {
			unit := items[k].part
			if unit < 0 || period > 1 {
				unit = len(f.parts)
				lo, hi := items[k].at, items[k+period-1].at
				f.parts = append(f.parts, part{name: f.name(lo, max(hi, lo)), kind: "unit", repeat: 1})
				for _, it := range items[k : k+period] {
					if it.part >= 0 {
						f.parts[it.part].parent = unit
					} else {
						f.block[it.op] = unit
					}
				}
			}
			f.parts[unit].parent = outer
			if last = f.parts[unit].name; k == i {
				first = last
			}
		}
		f.parts[outer].name = first + " … " + last
		i += covered
	}
}

// result lists the parts that hold anything, parents before what is in them, and gives every one a name of its own.
func (f *folding) result() []Block {
	inside := make([]int, len(f.parts))
	children := make([][]int, len(f.parts)+1)
	for _, b := range f.block {
		for ; b >= 0; b = f.parts[b].parent {
			inside[b]++
		}
	}
	for b := range f.parts {
		children[f.parts[b].parent+1] = append(children[f.parts[b].parent+1], b)
	}
	list := []Block{}
	at := make([]int, len(f.parts))
	used, others := map[string]bool{}, map[string]int{}
	var add func(b, parent int)
	add = func(b, parent int) {
		at[b] = parent
		if p := f.parts[b]; inside[b] >= 2 {
			at[b] = len(list)
			name := p.name
			for used[name] {
				others[p.name]++
				name = fmt.Sprintf("%s (%d)", p.name, others[p.name]+1)
			}
			used[name] = true
			list = append(list, Block{name, p.kind, parent, p.repeat})
		}
		for _, c := range children[b+1] {
			add(c, at[b])
		}
	}
	for _, b := range children[0] {
		add(b, -1)
	}
	for i, b := range f.block {
		if b >= 0 {
			f.block[i] = at[b]
		}
	}
	return list
}

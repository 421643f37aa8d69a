package pattern

import "qwb/graph"

// Family is a set of patterns for the same function written in different ways. In every form the names of the inputs mean the
// same; the root computes the function. A form of a single node is the operator itself where ONNX has one.
type Family struct {
	Name string
	Doc  string
	// Forms are tried in order, so longer ones stand before those they contain.
	Forms []*Pattern
	// accept, if not nil, holds what text does not say about a match.
	accept func(*graph.Graph, *Match) bool
}

// Families lists what a target may execute as one operator, each with several forms, in the order in which Cover should
// prefer them.
var Families = []*Family{Attention, LayerNorm, RMSNorm, Gelu, GeluFormula, HardSwish, Mish, Swish}

// Match matches the first form that holds at root.
func (f *Family) Match(g *graph.Graph, root graph.NodeID) (*Match, bool) {
	for _, p := range f.Forms {
		if m, ok := f.match(p, g, root); ok {
			return m, true
		}
	}
	return nil, false
}

func (f *Family) match(p *Pattern, g *graph.Graph, root graph.NodeID) (*Match, bool) {
	m, ok := p.Match(g, root)
	if !ok || f.accept != nil && !f.accept(g, m) {
		return nil, false
	}
	return m, true
}

// Found is a match together with the family it belongs to.
type Found struct {
	*Match
	Family *Family
}

// Cover finds disjoint matches: no node is in two of them. Families given first take precedence, within a family earlier forms,
// then earlier roots in g.Order. The result is in g.Order of the roots. A graph with a cycle has no matches.
func Cover(g *graph.Graph, families ...*Family) []Found {
	order, err := g.Order()
	if err != nil {
		return nil
	}
	taken := make([]bool, g.NumNodes())
	atRoot := make(map[graph.NodeID]Found)
	byOp := make(map[string][]graph.NodeID)
	for _, id := range order {
		op := g.Node(id).Op
		byOp[op] = append(byOp[op], id)
	}
	for _, f := range families {
		for _, p := range f.Forms {
			for _, op := range p.RootOps() {
				for _, id := range byOp[op] {
					m, ok := f.match(p, g, id)
					if !ok || overlaps(taken, m.Nodes) {
						continue
					}
					for _, n := range m.Nodes {
						taken[n] = true
					}
					atRoot[id] = Found{m, f}
				}
			}
		}
	}
	var found []Found
	for _, id := range order {
		if m, ok := atRoot[id]; ok {
			found = append(found, m)
		}
	}
	return found
}

func overlaps(taken []bool, nodes []graph.NodeID) bool {
	for _, n := range nodes {
		if taken[n] {
			return true
		}
	}
	return false
}

// product joins one text of every list, in all combinations, the last list varying fastest.
func product(parts ...[]string) []string {
	texts := []string{""}
	for _, list := range parts {
		var next []string
		for _, head := range texts {
			for _, tail := range list {
				next = append(next, head+tail+"\n")
			}
		}
		texts = next
	}
	return texts
}

func parseAll(lists ...[]string) []*Pattern {
	var forms []*Pattern
	for _, list := range lists {
		for _, text := range list {
			forms = append(forms, MustParse(text))
		}
	}
	return forms
}

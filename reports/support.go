package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
)

// supportTables write where operators run on a target: how many, then why, of those that do not run on integers; with nodes each by itself.
func supportTables(t *tables, s *analysis.Support, nodes bool) {
	t.printf("On %s%s, arithmetic %s\n", s.Platform, map[bool]string{true: ", read by " + s.Engine}[s.Engine != ""], knownAs(s))
	if s.Untried != "" {
		t.printf("The writer of format %s was not asked for a form of the operators: %s.\n", s.Format, s.Untried)
	}
	for _, why := range s.Refused {
		t.printf("format %s: %s\n", s.Format, why)
	}
	t.begin("Where operators run", "where", "nodes", "MACs")
	for _, c := range s.Counts {
		t.row(string(c.Where), fmt.Sprint(c.Nodes), percent(c.MACs))
	}
	t.end()
	if nodes {
		t.begin("Why", "name", "op", "where", "rule", "reason")
		for _, n := range s.Nodes {
			t.row(shorten(n.Node, 48), n.Op, string(n.Where), n.Rule, shortenEnd(n.Reason, 120))
		}
	} else {
		t.begin("Why not on integers", "where", "op", "nodes", "rule", "first", "reason")
		for _, g := range groupsOf(s) {
			t.row(string(g.Where), g.Op, fmt.Sprint(len(g.names)), g.Rule, shorten(g.names[0], 32), shortenEnd(g.Reason, 120))
		}
	}
	t.end()
}

func knownAs(s *analysis.Support) string {
	if s.Known {
		return s.Profile + ", compared with the engine's"
	}
	return s.Profile + ", never compared with an engine's"
}

type supportGroup struct {
	analysis.NodeSupport
	names []string
}

// groupsOf are the operators that run elsewhere than on integers and for one reason, in the order of places, those with the most first.
func groupsOf(s *analysis.Support) []*supportGroup {
	var list []*supportGroup
	for _, n := range s.Nodes {
		if n.Where == analysis.WhereInteger || n.Where == analysis.WhereShape {
			continue
		}
		i := slices.IndexFunc(list, func(g *supportGroup) bool {
			return g.Where == n.Where && g.Op == n.Op && g.Rule == n.Rule && reasonOf(&g.NodeSupport) == reasonOf(&n)
		})
		if i < 0 {
			i, list = len(list), append(list, &supportGroup{NodeSupport: n})
		}
		list[i].names = append(list[i].names, n.Node)
	}
	place := func(g *supportGroup) int { return slices.Index(analysis.Wheres, g.Where) }
	arrange.Stable(list, func(a, b *supportGroup) int {
		return cmp.Or(place(a)-place(b), len(b.names)-len(a.names))
	})
	return list
}

// reasonOf is a reason without the names of tensors and nodes in it.
func reasonOf(n *analysis.NodeSupport) string {
	parts := strings.Split(n.Reason, `"`)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = ""
	}
	return strings.Join(parts, `"`)
}

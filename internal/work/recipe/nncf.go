package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"qwb/graph"
	"qwb/internal/strictjson"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
	"qwb/quantizer/decision"
	"qwb/quantizer/target"
)

// ignoredScope is nncf.IgnoredScope as JSON: the operators that stay in float, by the names and types of the ONNX file.
type ignoredScope struct {
	Names     []string `json:"names"`
	Patterns  []string `json:"patterns"` // regular expressions that match the beginning of names, as Python's re.match
	Types     []string `json:"types"`
	Subgraphs []struct {
		Inputs  []string `json:"inputs"`
		Outputs []string `json:"outputs"`
	} `json:"subgraphs"` // all operators on ways from an input to an output, with both
	Validate *bool `json:"validate"` // a rule that matches nothing is an error; so it is if absent
}

// readNNCF reads an ignored scope: by itself, or under the key ignored_scope of a configuration.
func readNNCF(j *open.Job, name string) (Source, error) {
	src, err := store.ReadFile(j.Files(), name, maxRecipe)
	if err != nil {
		return Source{}, err
	}
	var whole map[string]json.RawMessage
	if json.Unmarshal(src, &whole) == nil && whole["ignored_scope"] != nil {
		// What stands before it becomes blank lines, so that errors say the line of the file.
		at := bytes.Index(src, []byte(`"ignored_scope"`))
		src = append(bytes.Repeat([]byte("\n"), bytes.Count(src[:at], []byte("\n"))), whole["ignored_scope"]...)
	}
	var s ignoredScope
	if err := strictjson.Decode(name, src, &s); err != nil {
		return Source{}, err
	}
	patterns := make([]*regexp.Regexp, len(s.Patterns))
	for i, p := range s.Patterns {
		if patterns[i], err = regexp.Compile(`^(?:` + p + `)`); err != nil {
			return Source{}, fmt.Errorf("%s: pattern %q: %w", name, p, err)
		}
	}
	return Source{forms: func(m *open.Model, t *target.Target) (*decision.Recipe, error) {
		f, err := readForeign(j, name, m, t)
		if err != nil {
			return nil, err
		}
		return f.r, f.ignore(&s, patterns)
	}}, nil
}

// ignore makes decisions of a scope, one for each kind of rule.
func (f *foreign) ignore(s *ignoredScope, patterns []*regexp.Regexp) error {
	g := f.m.Loaded
	names := make([]string, g.NumNodes())
	byName := map[string]graph.NodeID{}
	for i, id := range g.Nodes() {
		names[id] = nncfName(g, i, id)
		byName[names[id]] = id
	}
	strict := s.Validate == nil || *s.Validate
	var missed error
	found := func(what string, ids, more map[graph.NodeID]bool) {
		for id := range more {
			ids[id] = true
		}
		switch {
		case len(more) > 0:
		case strict && missed == nil:
			missed = f.fail("%s matches no operator of the model", what)
		case !strict:
			f.Note("%s: %s matches no operator of the model", f.file, what)
		}
	}
	where := func(holds func(id graph.NodeID) bool) map[graph.NodeID]bool {
		ids := map[graph.NodeID]bool{}
		for _, id := range g.Nodes() {
			if holds(id) {
				ids[id] = true
			}
		}
		return ids
	}
	rule := func(goal string, n int, match func(i int) (string, map[graph.NodeID]bool)) {
		ids := map[graph.NodeID]bool{}
		for i := range n {
			what, more := match(i)
			found(what, ids, more)
		}
		f.left = append(f.left, leftInFloat{goal, ids})
	}
	rule("nncf names", len(s.Names), func(i int) (string, map[graph.NodeID]bool) {
		ids := map[graph.NodeID]bool{}
		if id, ok := byName[s.Names[i]]; ok {
			ids[id] = true
		}
		return fmt.Sprintf("name %q", s.Names[i]), ids
	})
	rule("nncf patterns", len(patterns), func(i int) (string, map[graph.NodeID]bool) {
		return fmt.Sprintf("pattern %q", s.Patterns[i]), where(func(id graph.NodeID) bool { return patterns[i].MatchString(names[id]) })
	})
	rule("nncf types", len(s.Types), func(i int) (string, map[graph.NodeID]bool) {
		return fmt.Sprintf("type %q", s.Types[i]), where(func(id graph.NodeID) bool { return g.Node(id).Op == s.Types[i] })
	})
	rule("nncf subgraphs", len(s.Subgraphs), func(i int) (string, map[graph.NodeID]bool) {
		ids := map[graph.NodeID]bool{}
		for _, from := range s.Subgraphs[i].Inputs {
			for _, to := range s.Subgraphs[i].Outputs {
				a, okA := byName[from]
				b, okB := byName[to]
				if okA && okB {
					between(g, a, b, ids)
				}
			}
		}
		return fmt.Sprintf("subgraph %v to %v", s.Subgraphs[i].Inputs, s.Subgraphs[i].Outputs), ids
	})
	f.float()
	return missed
}

// nncfName is the name that NNCF knows the i-th operator of a file by. One without a name, which qwb calls by its type and first output, it
// calls by its type and i.
func nncfName(g *graph.Graph, i int, id graph.NodeID) string {
	n := g.Node(id)
	for _, out := range n.Outputs {
		if out != graph.NoValue && n.Name == n.Op+"_"+g.Value(out).Name {
			return fmt.Sprintf("%s_nncf_%d", n.Op, i)
		}
	}
	return n.Name
}

// between adds the operators on all ways from one operator to another, with both; none where there is no way.
func between(g *graph.Graph, from, to graph.NodeID, ids map[graph.NodeID]bool) {
	reach := func(start graph.NodeID, next func(graph.NodeID) []graph.NodeID) map[graph.NodeID]bool {
		seen := map[graph.NodeID]bool{start: true}
		for list := []graph.NodeID{start}; len(list) > 0; {
			id := list[len(list)-1]
			list = list[:len(list)-1]
			for _, n := range next(id) {
				if !seen[n] {
					seen[n] = true
					list = append(list, n)
				}
			}
		}
		return seen
	}
	after := reach(from, func(id graph.NodeID) (list []graph.NodeID) {
		for _, v := range g.Node(id).Outputs {
			if v != graph.NoValue {
				for _, u := range g.Uses(v) {
					list = append(list, u.Node)
				}
			}
		}
		return list
	})
	before := reach(to, func(id graph.NodeID) (list []graph.NodeID) {
		for _, v := range g.Node(id).Inputs {
			if v != graph.NoValue {
				if p := g.Producer(v); p != graph.NoNode {
					list = append(list, p)
				}
			}
		}
		return list
	})
	for id := range after {
		if before[id] {
			ids[id] = true
		}
	}
}

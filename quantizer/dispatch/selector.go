package dispatch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"qwb/graph"
)

// Selector picks nodes: by name, by a regular expression on the name, or by operator type.
type Selector struct {
	text string
	name string
	re   *regexp.Regexp
	op   string
}

// String returns the text that the selector was parsed from.
func (s Selector) String() string { return s.text }

// ParseSelectors reads selectors separated by commas: `name`, `/regex/` (RE2, anywhere in the name), `type:Softmax`. A comma
// that belongs to a selector is written `\,`. Blanks around selectors are ignored, empty ones are errors.
func ParseSelectors(text string) ([]Selector, error) {
	var list []Selector
	for _, part := range split(text) {
		s, err := ParseSelector(part)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// ParseSelector reads one selector; commas have no meaning.
func ParseSelector(text string) (Selector, error) {
	s := Selector{text: strings.TrimSpace(text)}
	switch {
	case s.text == "" || s.text == "//":
		return s, fmt.Errorf("selector %q is empty", s.text)
	case len(s.text) >= 2 && s.text[0] == '/' && s.text[len(s.text)-1] == '/':
		re, err := regexp.Compile(s.text[1 : len(s.text)-1])
		if err != nil {
			return s, fmt.Errorf("selector %q: %w", s.text, err)
		}
		s.re = re
	case strings.HasPrefix(s.text, "type:"):
		if s.op = strings.TrimSpace(s.text[len("type:"):]); s.op == "" {
			return s, fmt.Errorf("selector %q names no operator type", s.text)
		}
	default:
		s.name = s.text
	}
	return s, nil
}

// split cuts at commas that no backslash precedes.
func split(text string) []string {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		last := &parts[len(parts)-1]
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == ',':
			*last += ","
			i++
		case text[i] == ',':
			parts = append(parts, "")
		default:
			*last += text[i : i+1]
		}
	}
	return parts
}

// Matches reports whether the selector picks n.
func (s Selector) Matches(n *graph.Node) bool {
	switch {
	case s.re != nil:
		return s.re.MatchString(n.Name)
	case s.op != "":
		return n.Op == s.op
	}
	return n.Name == s.name
}

// Select returns for each selector the nodes it picks, as sets to hand to Assign, in g.Order. A selector that picks nothing is an
// error: a misspelt name must not pass silently.
func Select(g *graph.Graph, selectors []Selector, who string) ([]Forced, error) {
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	var sets []Forced
	for _, s := range selectors {
		f := Forced{Who: who, Why: s.text}
		for _, id := range order {
			if s.Matches(g.Node(id)) {
				f.Nodes = append(f.Nodes, id)
			}
		}
		if len(f.Nodes) == 0 {
			return nil, fmt.Errorf("dispatch: selector %q matches no node%s", s.text, hint(g, order, s))
		}
		sets = append(sets, f)
	}
	return sets, nil
}

// hint names a node whose name differs in case only, or contains the selector's name.
func hint(g *graph.Graph, order []graph.NodeID, s Selector) string {
	if s.name == "" {
		return ""
	}
	i := slices.IndexFunc(order, func(id graph.NodeID) bool {
		return strings.Contains(strings.ToLower(g.Node(id).Name), strings.ToLower(s.name))
	})
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", g.Node(order[i]).Name)
}

package graph

import (
	"fmt"
	"slices"
	"strings"
)

// State is an input that a network gets back from its run before: what the output of that run was. A cell's hidden state is one, and so
// are the keys and values of a cache.
type State struct {
	Input  string `json:"input" yaml:"input"`
	Output string `json:"output" yaml:"output"`
}

// String is INPUT=OUTPUT, which ParseStates reads.
func (s State) String() string { return s.Input + "=" + s.Output }

// ParseStates reads texts such as h=h_out. Of several = the last one splits.
func ParseStates(texts []string) ([]State, error) {
	var list []State
	for _, text := range texts {
		at := strings.LastIndexByte(text, '=')
		if at < 1 || at == len(text)-1 {
			return nil, fmt.Errorf("state %q: give the input and the output that it comes from, as in h=h_out", text)
		}
		list = append(list, State{text[:at], text[at+1:]})
	}
	return list, nil
}

// CheckStates reports the first state that g cannot have: an input or output that it lacks or that is named twice, types or sizes that
// differ, or states that leave no input to feed.
func (g *Graph) CheckStates(states []State) error {
	seen := map[string]bool{}
	for _, s := range states {
		in, ok := g.find(g.Inputs, s.Input)
		if !ok || g.Const(in) != nil {
			return fmt.Errorf("state %s: the network has no input %q, but %s", s, s.Input, g.names(g.Inputs))
		}
		out, ok := g.find(g.Outputs, s.Output)
		if !ok {
			return fmt.Errorf("state %s: the network has no output %q, but %s", s, s.Output, g.names(g.Outputs))
		}
		if seen[s.Input] {
			return fmt.Errorf("state %s: input %q is a state already", s, s.Input)
		}
		seen[s.Input] = true
		a, b := g.Value(in), g.Value(out)
		if a.DType != b.DType || !a.Shape.mayBe(b.Shape) {
			return fmt.Errorf("state %s: the input is %s%s, the output %s%s", s, a.DType, a.Shape, b.DType, b.Shape)
		}
	}
	free := func(v ValueID) bool { return g.Const(v) == nil && !seen[g.Value(v).Name] }
	if len(states) > 0 && !slices.ContainsFunc(g.Inputs, free) {
		return fmt.Errorf("all inputs of the network are states: there is nothing to feed it with, step by step")
	}
	return nil
}

// GuessState names the output that an input comes from where it is a state: of those of its type and rank whose sizes may be the same, and
// no other input's by name, the only one or the one with the most of its name. Empty: none.
func (g *Graph) GuessState(input string) string {
	in, ok := g.find(g.Inputs, input)
	if !ok || g.Value(in).Shape == nil {
		return ""
	}
	best, most, tie := "", -1, false
	for _, out := range g.Outputs {
		v := g.Value(out)
		if v.DType != g.Value(in).DType || v.Shape == nil || !g.Value(in).Shape.mayBe(v.Shape) {
			continue
		}
		n := common(strings.ToLower(input), strings.ToLower(v.Name))
		if best == "" || n > most {
			best, most, tie = v.Name, n, false
		} else if n == most {
			tie = true
		}
	}
	if tie {
		return ""
	}
	return best
}

// common is the length of the longest text that stands in both.
func common(a, b string) (most int) {
	for i := range a {
		for n := most + 1; i+n <= len(a) && strings.Contains(b, a[i:i+n]); n++ {
			most = n
		}
	}
	return most
}

// find returns the value of a list that is called name.
func (g *Graph) find(list []ValueID, name string) (ValueID, bool) {
	v, ok := g.Lookup(name)
	return v, ok && slices.Contains(list, v)
}

func (g *Graph) names(list []ValueID) string {
	var words []string
	for _, v := range list {
		words = append(words, g.Value(v).Name)
	}
	return strings.Join(words, ", ")
}

// mayBe reports whether two shapes may be the same, as far as sizes are known.
func (s Shape) mayBe(o Shape) bool {
	return s == nil || o == nil || slices.EqualFunc(s, o, func(a, b Dim) bool { return !a.Known() || !b.Known() || a.N == b.N })
}

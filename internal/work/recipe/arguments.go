package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// arguments are those of another tool's function as JSON, by name. Each is taken once; a note names those that are left.
type arguments struct {
	file string
	of   map[string]json.RawMessage
}

// readArguments reads a file of arguments, by themselves or as the value of a key.
func readArguments(j *open.Job, name, under string) (*arguments, error) {
	src, err := store.ReadFile(j.Files(), name, maxRecipe)
	if err != nil {
		return nil, err
	}
	a := &arguments{name, nil}
	if err := json.Unmarshal(src, &a.of); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if inner, ok := a.of[under]; ok {
		a.of = nil
		if err := json.Unmarshal(inner, &a.of); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, under, err)
		}
	}
	return a, nil
}

// take reads an argument into v, which keeps what it is where the argument is absent or null.
func (a *arguments) take(key string, v any) error {
	raw, ok := a.of[key]
	delete(a.of, key)
	if !ok || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %s: %w", a.file, key, err)
	}
	return nil
}

func (a *arguments) takeAll(to map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(to)) {
		if err := a.take(key, to[key]); err != nil {
			return err
		}
	}
	return nil
}

func (a *arguments) left(j *open.Job) {
	if len(a.of) > 0 {
		j.Note("%s: not imported: %s", a.file, strings.Join(slices.Sorted(maps.Keys(a.of)), ", "))
	}
}

// leave keeps in float, as one decision, the operators of the file for which is holds and that no rule before leaves there.
func (f *foreign) leave(goal string, is func(n *graph.Node) bool) {
	ids := map[graph.NodeID]bool{}
	for _, id := range f.m.Loaded.Nodes() {
		left := slices.ContainsFunc(f.left, func(l leftInFloat) bool { return l.ids[id] })
		if !left && is(f.m.Loaded.Node(id)) {
			ids[id] = true
		}
	}
	f.left = append(f.left, leftInFloat{goal, ids})
}

// matching are the names of operators of the file that begin with what a pattern matches; a note names patterns that match none.
func (f *foreign) matching(patterns []string, compiled map[string]*regexp.Regexp) (names []string) {
	for _, p := range patterns {
		n := len(names)
		for _, id := range f.m.Loaded.Nodes() {
			if name := f.m.Loaded.Node(id).Name; compiled[p].MatchString(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) == n {
			f.Note("%s: pattern %q matches no operator of the model", f.file, p)
		}
	}
	return names
}

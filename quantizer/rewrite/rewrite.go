// Package rewrite changes a graph in normal form without changing what it computes in float: ranges of channels move from one operator to
// another, or an operator is taken apart. Quantization loses less, or more, of the rewritten graph than of the other; which one it is
// is for methods of tuning to find out. What they keep is a list of steps, which turns the same model into the same graph again.
//
// Unstable: it may change without notice.
package rewrite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"qwb/graph"
)

// Step is one change. Which of the fields it has is up to its kind.
type Step struct {
	Kind   string   `json:"kind"`             // a name in Kinds
	At     string   `json:"at"`               // the node it is about
	Nodes  []string `json:"nodes,omitempty"`  // more nodes, in graph order
	Groups [][]int  `json:"groups,omitempty"` // channels
	// Vectors are numbers per channel by their role, as "scale" or "shift"; all are finite.
	Vectors map[string][]float32 `json:"-"`
}

// Kind is one way of changing a graph.
type Kind struct {
	Name string
	Doc  string // one line
	// Apply changes the graph, whose shapes are inferred. An error says why the step does not fit; the graph is of no use afterwards.
	// Nodes and values that stay keep their names; what is new is named after the node that it comes from, so that the same steps make the
	// same names.
	Apply func(g *graph.Graph, s *Step) error
}

// Kinds lists all kinds.
var Kinds = []*Kind{&Scale, &Spread, &Shift, &Copy, &Group, &SplitChannels, &SplitWeight}

// Find returns the kind of a name, nil if there is none.
func Find(name string) *Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Broken is the error of a step that does not fit a graph.
type Broken struct {
	Index int // of the step in its list, from 0
	Kind  string
	At    string
	Err   error
}

func (b *Broken) Error() string {
	return fmt.Sprintf("step %d (%s at node %q) does not fit the graph: %v", b.Index+1, b.Kind, b.At, b.Err)
}

func (b *Broken) Unwrap() error { return b.Err }

// Apply returns a clone of a graph after steps, with shapes inferred. The graph itself is not changed. A step that does not fit is
// a *Broken.
func Apply(g *graph.Graph, steps []Step) (*graph.Graph, error) {
	g = g.Clone()
	for i := range steps {
		s := &steps[i]
		broken := func(err error) error { return &Broken{Index: i, Kind: s.Kind, At: s.At, Err: err} }
		k := Find(s.Kind)
		if k == nil {
			return nil, broken(fmt.Errorf("this program knows no such kind of step"))
		}
		if err := s.finite(); err != nil {
			return nil, broken(err)
		}
		nodes := g.NumNodes()
		if err := k.Apply(g, s); err != nil {
			return nil, broken(err)
		}
		if g.NumNodes() == nodes && i+1 < len(steps) {
			continue // no shape has changed
		}
		if errs := graph.InferShapes(g); len(errs) > 0 {
			return nil, broken(errs[0])
		}
	}
	return g, nil
}

// String is the step in words: "scale at conv1, scale of 16 channels from 0.5 to 2".
func (s *Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s", s.Kind, s.At)
	for _, name := range slices.Sorted(maps.Keys(s.Vectors)) {
		if v := s.Vectors[name]; len(v) > 0 {
			fmt.Fprintf(&b, ", %s of %d channels from %.3g to %.3g", name, len(v), slices.Min(v), slices.Max(v))
		}
	}
	if n := len(s.Groups); n > 0 {
		fmt.Fprintf(&b, ", %d groups of channels", n)
	}
	return b.String()
}

// finite refuses vectors with elements that are not finite, in the order of their names.
func (s *Step) finite() error {
	var names []string
	for name := range s.Vectors {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for i, x := range s.Vectors[name] {
			if x-x != 0 {
				return fmt.Errorf("element %d of its vector %q is not finite", i, name)
			}
		}
	}
	return nil
}

package exec

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// feed puts the caller's inputs in place and returns the shapes of all graph inputs.
func (r *runnerState) feed(feeds map[string]*tensor.Tensor) ([][]int, error) {
	g := r.s.g
	used := 0
	r.shapes = resize(r.shapes, len(g.Inputs))
	shapes := r.shapes
	if r.outer == nil {
		r.handed = 0
	}
	for i, v := range g.Inputs {
		val := g.Value(v)
		t, given := feeds[val.Name]
		if given {
			used++
			if err := checkFeed(val, t, r.outer != nil); err != nil {
				return nil, err
			}
			r.vals[v] = handle{t: t, buf: noBuf}
		}
		if r.vals[v].t == nil {
			if err := r.unknownFeed(feeds); err != nil {
				return nil, err // a name that is spelled wrong says more
			}
			return nil, fmt.Errorf("input %q is missing; the graph has the inputs %s", val.Name, r.describeInputs())
		}
		shapes[i] = r.vals[v].t.Shape
		if r.outer == nil {
			r.handed += storageBytes(r.vals[v].t.DType, r.vals[v].t.Len())
		}
	}
	if used < len(feeds) {
		return nil, r.unknownFeed(feeds)
	}
	return shapes, nil
}

// unknownFeed is an error that names the first of the feeds that no input takes, nil if there is none.
func (r *runnerState) unknownFeed(feeds map[string]*tensor.Tensor) error {
	for _, name := range sortedNames(feeds) {
		if v, ok := r.s.g.Lookup(name); !ok || !r.s.g.IsInput(v) {
			return fmt.Errorf("there is no input %q; the graph has the inputs %s", name, r.describeInputs())
		}
	}
	return nil
}

// checkFeed compares a tensor with the declared type of an input. A declared dimension of 0 counts as unknown: exporters
// write it for open dimensions. In a body only the element type counts: what a loop carries may change its shape.
func checkFeed(val *graph.Value, t *tensor.Tensor, body bool) error {
	if t == nil {
		return fmt.Errorf("input %q is nil", val.Name)
	}
	ok := val.DType == tensor.Undefined || val.DType == t.DType
	if val.Shape != nil && !body {
		ok = ok && len(val.Shape) == len(t.Shape)
		for i := 0; ok && i < len(t.Shape); i++ {
			ok = val.Shape[i].N <= 0 || int(val.Shape[i].N) == t.Shape[i]
		}
	}
	if !ok {
		return fmt.Errorf("input %q is %s%s, got %s", val.Name, val.DType, val.Shape, t.Type())
	}
	if n, err := checkedLen(t.Shape); err != nil || !fits(t, n) {
		return fmt.Errorf("input %q: data does not fit the type %s", val.Name, t.Type())
	}
	return nil
}

func (r *runnerState) describeInputs() string {
	var list []string
	for _, v := range r.s.g.Inputs {
		val := r.s.g.Value(v)
		if val.Const == nil {
			list = append(list, fmt.Sprintf("%q %s%s", val.Name, val.DType, val.Shape))
		}
	}
	return strings.Join(list, ", ")
}

func sortedNames(feeds map[string]*tensor.Tensor) []string {
	names := make([]string, 0, len(feeds))
	for n := range feeds {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

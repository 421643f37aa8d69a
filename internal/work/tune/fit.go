package tune

import (
	"fmt"
	"slices"
	"strings"

	"qwb/calib/tune"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/observers"
)

// fromGrams refuses methods that cannot be fitted on Gram statistics where those are what there is. auto does without them.
func fromGrams(j *open.Job, methods []*tune.Method, o Options) ([]*tune.Method, error) {
	if o.Gram == "" {
		return methods, nil
	}
	var able, names []string
	for _, m := range tune.Methods {
		if m.FromGrams {
			able = append(able, m.Name)
		}
	}
	list := slices.DeleteFunc(slices.Clone(methods), func(m *tune.Method) bool {
		if !m.FromGrams {
			names = append(names, m.Name)
		}
		return !m.FromGrams
	})
	if len(names) > 0 && !slices.Contains(o.Methods, "auto") {
		return nil, fault.Usagef("%s: needs samples of the quantized graph, and Gram statistics come from the float graph; --gram works with %s",
			strings.Join(names, ", "), strings.Join(able, ", "))
	}
	if len(names) > 0 {
		j.Note("skipped, because they need the quantized network in front of each operator: %s", strings.Join(names, ", "))
	}
	return list, nil
}

// fitOnGrams gives the bench Gram statistics in place of the samples to fit on.
func (t *tuning) fitOnGrams(name string) (end func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, end, err := OpenGrams(t.Job, name)
	if err != nil {
		return nil, err
	}
	switch {
	case f.Shards > 1:
		err = fmt.Errorf("%s holds only part %d of %d: combine all parts with qwb merge", name, f.Shard, f.Shards)
	case f.Model != t.Planned.Digest:
		err = fmt.Errorf("%s: the Gram statistics are of another model (SHA-256 %.12s..., %s has %.12s...)", name, f.Model, t.Planned.Path,
			t.Planned.Digest)
	case len(t.Bench.Steps) > 0:
		err = fmt.Errorf("%s: the Gram statistics belong to the original model, and tuning has rewritten it: run qwb plan undo first", name)
	}
	if err != nil {
		end()
		return nil, err
	}
	t.grams = f
	var last struct {
		node string
		gram *observers.Gram
	}
	t.Bench.Fit = nil
	t.Bench.Grams = func(node string) (*observers.Gram, error) {
		if last.node == node {
			return last.gram, nil
		}
		g, err := f.Gram(node)
		if err != nil {
			return nil, &fault.FileError{File: name, Err: err}
		}
		last.node, last.gram = node, g
		return g, nil
	}
	return end, nil
}

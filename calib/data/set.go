package data

import (
	"fmt"
	"io/fs"
	"math"
	"sort"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// Warning is something the user should know about the data.
type Warning = tqc.Warning

// Options say how data are read. The zero value takes all samples of the operating system's files without preprocessing.
type Options struct {
	FS          fs.FS            // nil: the operating system's files
	Preprocess  *plan.Preprocess // of images; nil: none
	Samples     int              // how many to take, chosen by Seed; 0: all
	Seed        uint64
	Labels      string // file with labels, "": only those that the data bring
	LabelOffset int    // class = label + offset
	// Text returns the tokens of a line of text, for models that read tokens: text files (.txt) are data then. It is called by
	// several goroutines.
	Text  func(line string) ([]int64, error)
	Ahead int // samples loaded ahead, each by a goroutine of its own; 0: 1
	// States make every file of arrays, and every folder of other samples, a sequence whose samples are steps: each has the states that the
	// network Graph, in float, left at the step before. Samples then counts steps, of whole sequences. nil: samples stand for themselves.
	States []graph.State
	Graph  *graph.Graph
	Bound  int64 // bytes that the work may take in all: a sample that alone takes more is refused before it is read; 0: any number
	Memory int64 // bytes that samples loaded ahead may take, judged by the first one; one is loaded in any case; 0: any number
}

// source is one opened argument: a list of samples that are loaded one at a time. Loading is safe for concurrent use.
type source interface {
	len() int
	// name of sample i, unique in the source and independent of where the source lies.
	name(i int) string
	// label that the data bring along, -1 if none.
	label(i int) int
	load(i int) (map[string]*tensor.Tensor, error)
}

// Set is an opened data set. It may be iterated any number of times, also concurrently.
type Set struct {
	items  []item
	ahead  int
	memory int64
	rolled *rolled // nil where samples stand for themselves
	mask   string  // of every sample
}

type item struct {
	src    source
	index  int
	name   string
	origin string // path of the source: orders samples of the same name, and tells them apart in messages
	label  int
	of     *sequence // that it is a step of
	step   int
}

// load reads what the source has.
func (it *item) load() (map[string]*tensor.Tensor, error) {
	feeds, err := it.src.load(it.index)
	if err == nil {
		err = refuseNaN(feeds)
	}
	return feeds, err
}

func (it *item) fault(err error) error {
	return &graph.FileError{Stage: "data", File: it.origin, Err: fmt.Errorf("%s: %w", it.name, err)}
}

// Open lists the samples of all paths: files, folders, or synthetic:N. Samples are sorted by name, whatever the order of
// the paths; with opts.Samples, that many are chosen by seed and stay in this order.
func Open(paths []string, spec InputSpec, opts Options) (*Set, []Warning, error) {
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("data: no data given")
	}
	if len(spec) == 0 {
		return nil, nil, fmt.Errorf("data: the model has no inputs to feed")
	}
	o := &opener{fs: files{opts.FS, opts.Bound}, spec: spec, pre: opts.Preprocess, seed: opts.Seed, text: opts.Text, labels: opts.Labels}
	set := &Set{ahead: max(opts.Ahead, 1), memory: opts.Memory}
	if len(opts.States) > 0 {
		var err error
		if set.rolled, err = roll(opts.Graph, opts.States); err != nil {
			return nil, nil, fmt.Errorf("data: %w", err)
		}
		o.spec, o.steps = spec.without(set.rolled.states), set.rolled.states
	}
	if opts.Preprocess != nil {
		set.mask = opts.Preprocess.Mask
	}
	for _, p := range paths {
		sources, err := o.open(p)
		if err != nil {
			return nil, nil, &graph.FileError{Stage: "data", File: p, Err: err}
		}
		for _, s := range sources {
			for i := range s.len() {
				set.items = append(set.items, item{src: s, index: i, name: s.name(i), origin: p, label: s.label(i)})
			}
		}
	}
	if set.rolled != nil {
		if err := set.group(opts.States, opts.Samples, opts.Seed); err != nil {
			return nil, nil, err
		}
		return set, o.finish(), set.label(o, opts)
	}
	sort.SliceStable(set.items, func(a, b int) bool {
		x, y := set.items[a], set.items[b]
		if x.name != y.name {
			return x.name < y.name
		}
		return x.origin < y.origin
	})
	if err := set.label(o, opts); err != nil {
		return nil, nil, err
	}
	if n := len(set.items); opts.Samples > n {
		o.warn(float64(n), "--samples %d: the data have only %d; all are used", opts.Samples, n)
	} else if list := choose(n, opts.Samples, opts.Seed); list != nil {
		kept := make([]item, len(list))
		for i, at := range list {
			kept[i] = set.items[at]
		}
		set.items = kept
	}
	return set, o.finish(), nil
}

func (s *Set) label(o *opener, opts Options) error {
	if err := s.applyLabels(o, opts); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// Shard returns part i (from 1) of n, which together have each sample once: every n-th one, or of sequences all steps of every n-th one.
func (s *Set) Shard(i, n int) *Set {
	if s.rolled == nil {
		return s.Take(s.Places(i, n))
	}
	part := *s
	part.items = nil
	part.shard(s.items, i, n)
	return &part
}

// Take returns the samples at some places. They are no steps of sequences.
func (s *Set) Take(places []int) *Set {
	part := *s
	part.items = nil
	for _, at := range places {
		part.items = append(part.items, s.items[at])
	}
	return &part
}

// Places are where the samples of Shard stand in s.
func (s *Set) Places(i, n int) (places []int) {
	k := 0
	for at := range s.items {
		if s.rolled == nil || s.items[at].step == 0 {
			k++
		}
		if (k-i)%n == 0 {
			places = append(places, at)
		}
	}
	return places
}

// Len returns the number of samples.
func (s *Set) Len() int { return len(s.items) }

// Name returns the name of sample i: the path in its folder, or the name of its file with the index in it.
func (s *Set) Name(i int) string { return s.items[i].name }

// Label returns the class of sample i, -1 if it is unknown.
func (s *Set) Label(i int) int { return s.items[i].label }

// Iterator returns a new iterator over all samples.
func (s *Set) Iterator() exec.Iterator {
	if s.rolled != nil {
		r := s.rolled.roller()
		return &iterator{set: s, ahead: 1, sample: func(i int) (*exec.Sample, error) { return r.sample(s, i) }}
	}
	if s.memory > 0 {
		return &iterator{set: s, ahead: 1, sample: s.Sample}
	}
	return &iterator{set: s, ahead: s.ahead, sample: s.Sample}
}

// Sample loads sample i. NaN in its inputs is an error. A step of a sequence takes those before it, unless they were asked for last.
func (s *Set) Sample(i int) (*exec.Sample, error) {
	if s.rolled != nil {
		s.rolled.mu.Lock()
		defer s.rolled.mu.Unlock()
		return s.rolled.one.sample(s, i)
	}
	it := &s.items[i]
	feeds, err := it.load()
	if err != nil {
		return nil, it.fault(err)
	}
	return &exec.Sample{Name: it.name, Hash: Hash(feeds), Label: it.label, Feeds: feeds, Mask: s.mask}, nil
}

func refuseNaN(feeds map[string]*tensor.Tensor) error {
	first := ""
	at := 0
	for name, t := range feeds {
		if i := firstNaN(t); i >= 0 && (first == "" || name < first) {
			first, at = name, i
		}
	}
	if first != "" {
		return fmt.Errorf("input %q (%s) holds NaN, first at element %d", first, feeds[first].Type(), at)
	}
	return nil
}

// firstNaN returns the index of the first NaN, -1 if there is none.
func firstNaN(t *tensor.Tensor) int {
	switch s := t.Data.(type) {
	case []float32:
		for i, v := range s {
			if v != v {
				return i
			}
		}
	case []float64:
		for i, v := range s {
			if math.IsNaN(v) {
				return i
			}
		}
	case []uint16:
		limit := map[tensor.DType]uint16{tensor.Float16: 0x7c00, tensor.BFloat16: 0x7f80}[t.DType]
		for i, v := range s {
			if limit != 0 && v&0x7fff > limit {
				return i
			}
		}
	}
	return -1
}

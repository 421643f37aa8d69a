package open

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/quantizer/plan"
)

// DataOptions is a data set as the command line names it.
type DataOptions struct {
	Paths       []string
	Preprocess  string           // a preset or a file; empty: stored, else none
	Stored      *plan.Preprocess // from a plan
	Samples     int
	Seed        uint64
	States      []string // INPUT=OUTPUT, what a run hands to the next one; none: stored
	Labels      string
	LabelOffset int
	Metric      MetricOptions // what the samples are scored by
	Mask        string        // of calibrate: the input that marks padding, MaskAuto (also empty) or MaskNone
	Slices      string        // a file of parts that outputs are judged by, in place of those that the graph has
	Threads     int
	Memory      int64 // for samples read ahead, 0: any
	Budget      int64 // what the values of a sample's run in float may take, 0: as exec.Options has it
	// Float is the network whose runs say what the states of a step are; nil: the one that the data are for.
	Float *graph.Graph
	// Of a language model, which reads text: the checkpoint, and the file of its tokenizer, empty for the one that belongs to it.
	Checkpoint *checkpoint.Model
	Tokenizer  string
}

// Of returns the options for the data of a model.
func (o DataOptions) Of(m *Model) DataOptions {
	o.Checkpoint = m.Checkpoint
	return o
}

// MaskAuto takes the mask that the network has, MaskNone none.
const (
	MaskAuto = "auto"
	MaskNone = "none"
)

// mask is the input of g that marks padding as the options say, empty for none.
func (o DataOptions) mask(g *graph.Graph) (string, error) {
	name := o.Mask
	switch name {
	case MaskNone:
		return "", nil
	case MaskAuto:
		name = ""
	}
	p, err := graph.FindPadding(g, name)
	switch {
	case err != nil && name != "":
		return "", fault.Usagef("--mask: %v", err)
	case err == nil && p == nil && name != "":
		if len(o.States) == 0 {
			return "", fault.Usagef("--mask %s: it has one element, which marks steps of sequences only: they need --state", name)
		}
		return name, nil
	case err != nil || p == nil: // a graph that cannot be ordered is refused where it is run
		return "", nil
	}
	return g.Value(p.Mask).Name, nil
}

// ErrNoData is about commands that take --data.
var ErrNoData = fault.Usagef("no data: name some with --data (a plan that was imported has none of its own)")

// OpenData opens the data set for the inputs of g and prints its warnings. The preprocessing in force is returned with it.
func (j *Job) OpenData(g *graph.Graph, o DataOptions) (*data.Set, plan.Preprocess, error) {
	if len(o.Paths) == 0 {
		return nil, plan.Preprocess{}, ErrNoData
	}
	spec := data.SpecOf(g)
	var pre plan.Preprocess
	var err error
	switch {
	case o.Preprocess != "":
		pre, err = data.Preprocessing(o.Preprocess, spec, j.Files())
	case o.Stored != nil:
		pre = *o.Stored
	default:
		pre, err = data.Preprocessing("none", spec, j.Files())
	}
	if err != nil {
		return nil, pre, err
	}
	if o.Stored != nil {
		pre.Mask, pre.States = o.Stored.Mask, o.Stored.States
	} else if pre.Mask, err = o.mask(g); err != nil {
		return nil, pre, err
	}
	if len(o.States) > 0 {
		if pre.States, err = graph.ParseStates(o.States); err != nil {
			return nil, pre, fault.UsageError{Err: err}
		}
	}
	labels, err := o.classLabels()
	if err != nil {
		return nil, pre, err
	}
	options := data.Options{FS: j.Files(), Preprocess: &pre, Samples: o.Samples, Seed: o.Seed, Labels: labels, LabelOffset: o.LabelOffset,
		Ahead: o.Threads, Memory: o.Memory, States: pre.States, Graph: cmp.Or(o.Float, g),
		Bound: exec.MemoryOf(j.Context())}
	if options.Bound > 0 && o.Memory == 0 {
		options.Memory = options.Bound / 32
	}
	if err := j.Readable(o.Tokenizer); err != nil {
		return nil, pre, err
	}
	if o.Checkpoint != nil {
		options.Text, pre.Tokenizer = j.lineReader(o.Checkpoint, o.Tokenizer), o.Tokenizer
	} else if o.Tokenizer != "" {
		return nil, pre, fault.Usagef("--tokenizer is for language models")
	}
	set, warnings, err := data.Open(o.Paths, spec, options)
	if err != nil {
		return nil, pre, err
	}
	for _, w := range warnings {
		j.Warn("%s", w.Text)
	}
	if err := j.sameData(set, pre); err != nil {
		return nil, pre, err
	}
	if len(pre.States) > 0 { // whose samples are runs of the network
		return set, pre, nil
	}
	return set, pre, j.widest(g, set)
}

// sameData notes the samples by name and label, and how they become inputs, for a run in parts: what is in them need not be read for it.
func (j *Job) sameData(set *data.Set, pre plan.Preprocess) error {
	r := shard.In(j.Context())
	if r == nil {
		return nil
	}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(pre); err != nil {
		return err
	}
	for i := range set.Len() {
		fmt.Fprintf(h, "%q %d\n", set.Name(i), set.Label(i))
	}
	return r.Fact("data", fmt.Sprintf("%d samples, %x", set.Len(), h.Sum(nil)))
}

// widest tells what bounds the memory of this job of the largest samples, where the network leaves their sizes open.
func (j *Job) widest(g *graph.Graph, set *data.Set) error {
	open := func(d graph.Dim) bool { return !d.Known() }
	if exec.MemoryOf(j.Context()) == 0 || !slices.ContainsFunc(g.Inputs, func(v graph.ValueID) bool {
		return slices.ContainsFunc(g.Value(v).Shape, open)
	}) {
		return nil
	}
	for it := set.Iterator(); ; {
		s, err := it.Next(j.Context())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		exec.Meets(j.Context(), s.Feeds)
	}
}

// lineReader returns what makes tokens of a line of text: the one that begins a text and those of the tokenizer, cut at the context of
// the model. The tokenizer is opened for the first line.
func (j *Job) lineReader(m *checkpoint.Model, tokenizer string) func(line string) ([]int64, error) {
	open := sync.OnceValues(func() (decode.Tokenizer, error) { return decode.OpenTokenizer(tokenizer, m) })
	var cut sync.Once
	return func(line string) ([]int64, error) {
		t, err := open()
		if err != nil {
			return nil, err
		}
		l := Language{m, t}
		ids, err := l.Begin(line)
		if err != nil {
			return nil, err
		}
		if len(ids) > m.Context {
			cut.Do(func() { j.Warn("lines of more than %d tokens are cut: the model was made for so many", m.Context) })
			ids = ids[:m.Context]
		}
		out := make([]int64, len(ids))
		for i, id := range ids {
			out[i] = int64(id)
		}
		return out, nil
	}
}

// Sources lists data paths as statistics beside planFile record them, sorted and without repetition: a path given as absolute
// stays so, any other becomes relative to the file.
func Sources(planFile string, paths []string) []string {
	var out []string
	for _, p := range paths {
		if !IsSynthetic(p) && !filepath.IsAbs(p) {
			p = plan.Relative(planFile, p)
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PlanPaths turns recorded sources into what the plan says: relative to the plan where possible.
func PlanPaths(planFile string, sources []string) []string {
	out := make([]string, len(sources))
	for i, s := range sources {
		if out[i] = s; !IsSynthetic(s) {
			out[i] = plan.Relative(planFile, plan.Resolve(planFile, s))
		}
	}
	slices.Sort(out)
	return out
}

// Locate undoes sources.
func Locate(planFile string, sources []string) []string {
	out := make([]string, len(sources))
	for i, s := range sources {
		if out[i] = s; !IsSynthetic(s) {
			out[i] = plan.Resolve(planFile, s)
		}
	}
	return out
}

// IsSynthetic reports whether a data argument asks for made-up samples.
func IsSynthetic(path string) bool { return strings.HasPrefix(path, "synthetic:") }

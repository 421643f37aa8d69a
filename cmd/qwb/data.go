package main

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/checkpoint"
	"qwb/graph/decode"
	"qwb/quantizer/plan"
)

// dataOptions is a data set as the command line names it.
type dataOptions struct {
	paths       []string
	preprocess  string           // a preset or a file; empty: stored, else none
	stored      *plan.Preprocess // from a plan
	samples     int
	seed        uint64
	labels      string
	labelOffset int
	threads     int
	memory      int64 // for samples read ahead, 0: any
	budget      int64 // what the values of a sample's run in float may take, 0: as exec.Options has it
	// Of a language model, which reads text: the checkpoint, and the file of its tokenizer, empty for the one that belongs to it.
	checkpoint *checkpoint.Model
	tokenizer  string
}

// of returns the options for the data of a model.
func (o dataOptions) of(m *model) dataOptions {
	o.checkpoint = m.checkpoint
	return o
}

func (f *flags) dataOptions() dataOptions {
	return dataOptions{paths: f.data, preprocess: f.preprocess, samples: f.samples, seed: f.seed, threads: f.workers(), tokenizer: f.tokenizer}
}

// openData opens the data set for the inputs of g and prints its warnings. The preprocessing in force is returned with it.
func (e *env) openData(g *graph.Graph, o dataOptions) (*data.Set, plan.Preprocess, error) {
	if len(o.paths) == 0 {
		return nil, plan.Preprocess{}, usagef("no data: name some with --data (a plan that was imported has none of its own)")
	}
	spec := data.SpecOf(g)
	var pre plan.Preprocess
	var err error
	switch {
	case o.preprocess != "":
		pre, err = data.Preprocessing(o.preprocess, spec, nil)
	case o.stored != nil:
		pre = *o.stored
	default:
		pre, err = data.Preprocessing("none", spec, nil)
	}
	if err != nil {
		return nil, pre, err
	}
	options := data.Options{Preprocess: &pre, Samples: o.samples, Seed: o.seed, Labels: o.labels, LabelOffset: o.labelOffset, Ahead: o.threads, Memory: o.memory}
	if o.checkpoint != nil {
		options.Text, pre.Tokenizer = e.lineReader(o.checkpoint, o.tokenizer), o.tokenizer
	} else if o.tokenizer != "" {
		return nil, pre, usagef("--tokenizer is for language models")
	}
	set, warnings, err := data.Open(o.paths, spec, options)
	if err != nil {
		return nil, pre, err
	}
	for _, w := range warnings {
		e.warn("%s", w.Text)
	}
	return set, pre, nil
}

// lineReader returns what makes tokens of a line of text: the one that begins a text and those of the tokenizer, cut at the context of
// the model. The tokenizer is opened for the first line.
func (e *env) lineReader(m *checkpoint.Model, tokenizer string) func(line string) ([]int64, error) {
	open := sync.OnceValues(func() (decode.Tokenizer, error) { return decode.OpenTokenizer(tokenizer, m) })
	var cut sync.Once
	return func(line string) ([]int64, error) {
		t, err := open()
		if err != nil {
			return nil, err
		}
		l := language{m, t}
		ids, err := l.begin(line)
		if err != nil {
			return nil, err
		}
		if len(ids) > m.Context {
			cut.Do(func() { e.warn("lines of more than %d tokens are cut: the model was made for so many", m.Context) })
			ids = ids[:m.Context]
		}
		out := make([]int64, len(ids))
		for i, id := range ids {
			out[i] = int64(id)
		}
		return out, nil
	}
}

// sources lists data paths as statistics beside planFile record them, sorted and without repetition: a path given as absolute
// stays so, any other becomes relative to the file.
func sources(planFile string, paths []string) []string {
	var out []string
	for _, p := range paths {
		if !isSynthetic(p) && !filepath.IsAbs(p) {
			p = plan.Relative(planFile, p)
		}
		out = append(out, p)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// planPaths turns recorded sources into what the plan says: relative to the plan where possible.
func planPaths(planFile string, sources []string) []string {
	out := make([]string, len(sources))
	for i, s := range sources {
		if out[i] = s; !isSynthetic(s) {
			out[i] = plan.Relative(planFile, plan.Resolve(planFile, s))
		}
	}
	slices.Sort(out)
	return out
}

// locate undoes sources.
func locate(planFile string, sources []string) []string {
	out := make([]string, len(sources))
	for i, s := range sources {
		if out[i] = s; !isSynthetic(s) {
			out[i] = plan.Resolve(planFile, s)
		}
	}
	return out
}

// isSynthetic reports whether a data argument asks for made-up samples.
func isSynthetic(path string) bool { return strings.HasPrefix(path, "synthetic:") }

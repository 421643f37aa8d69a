package workbench

import (
	"context"
	"slices"

	"qwb"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

// jobKind is a kind of job.
type jobKind struct {
	Name, Doc string
	Changes   bool // it may write a plan, or open another
	New       func() work
	For       options.Kind // of models, where its command takes several
	Opens     bool         // it only opens: what is open matters nothing to it
}

// work is what a job does. Its options are those of the command that does the same, as far as jobs have them.
type work interface {
	options.Command
	// line is that command, with the flags of what t, the options, holds by then. It refuses options that make no sense.
	line(b *Bench, t options.Table) (string, error)
	run(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error)
}

var kinds = []jobKind{
	{"open", "open a model, with its plan if it has one, or a plan", true, fresh[openJob], options.Any, true},
	{"trial", "run the float model with each preprocessing and label offset", false, fresh[trialJob], options.Any, false},
	{"calibrate", "run the model on data and choose all scales", true, fresh[calibrateJob], options.Any, false},
	{"analyze", "measure the error, as a whole and by operator", false, fresh[analyzeJob], options.Networks, false},
	{"dispatch", "keep operators in float: those named, or as few as a budget needs", true, fresh[dispatchJob], options.Any, false},
	{"sweep", "calibrate with many options and keep the best plan", true, fresh[sweepJob], options.Any, false},
	{"tune", "repair accuracy: biases, rounding of weights, scales, ranges of channels", true, fresh[tuneJob], options.Any, false},
	{"eval", "measure accuracy on data with labels", false, fresh[evalJob], options.Networks, false},
	{"compare", "run plans and models on the same samples", false, fresh[compareJob], options.Any, false},
	{"verify", "run the plan on integers and check every one", true, fresh[verifyJob], options.Any, false},
	{"export", "write the quantized model", true, fresh[exportJob], options.Any, false},
	{"flips", "list the samples whose prediction changed", false, fresh[flipsJob], options.Networks, false},
	{"sample-layers", "the error of one sample by operator", false, fresh[sampleLayersJob], options.Networks, false},
	{"language-rank", "rank the matrices of a language model by what each does alone", false, fresh[languageRank], options.Checkpoints, false},
	{"language-eval", "score the lines of a text with a language model", false, fresh[languageEval], options.Checkpoints, false},
	{"language-generate", "continue a text in float and quantized", false, fresh[languageGenerate], options.Checkpoints, false},
	{"import", "make a plan of a model that is quantized already", true, fresh[importJob], options.Any, false},
}

// fresh is work that was told nothing yet.
func fresh[T any, P interface {
	*T
	work
}]() work {
	return P(new(T))
}

// kindOf finds a kind by its name, nil if there is none.
func kindOf(name string) *jobKind {
	if i := slices.IndexFunc(kinds, func(k jobKind) bool { return k.Name == name }); i >= 0 {
		return &kinds[i]
	}
	return nil
}

// table has the options of a job, bound to it.
func (k *jobKind) table(b *Bench, w work) options.Table {
	return w.Table(&b.o.Project.Catalog).Job().Of(k.For)
}

// argument is an option of a job that is no flag of its command.
func argument(name string, at any) options.Option {
	return options.Option{Name: name, At: at, Bare: true}
}

// planLine is a command about the plan that is open, or that a job in front is to write; check, if not nil, is asked first.
func (b *Bench) planLine(name string, check func() error, t options.Table) (string, error) {
	if check != nil {
		if err := check(); err != nil {
			return "", err
		}
	}
	file := b.project().Plan
	if file == "" {
		return "", qwb.Usagef("nothing is open")
	}
	return command(append([]string{name, file}, t.Words()...)...), nil
}

// done is what a method returned; a result that is missing is null in JSON.
func done[R any](r *R, w []tqc.Warning, err error) (any, []tqc.Warning, error) {
	if r == nil {
		return nil, w, err
	}
	return r, w, err
}

// bounded sets what a bench decides for all jobs: how many threads work, and what memory they may take.
func (b *Bench) bounded(d *qwb.DataOptions, threads *int, memory *int64) {
	d.Threads, d.Memory, *threads = b.o.Threads, b.o.Memory, b.o.Threads
	if memory != nil {
		*memory = b.o.Memory
	}
}

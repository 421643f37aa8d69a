package workbench

import (
	"context"
	"reflect"
	"slices"

	"qwb"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

// jobKind is a kind of job.
type jobKind struct {
	Name, Doc string
	Changes   bool // it may write a plan, or open another
	making
	For   options.Kind // of models, where its command takes several
	Opens bool         // it only opens: what is open matters nothing to it
}

// work is what a job does. Its options are those of the command that does the same, as far as jobs have them.
type work struct {
	asked
	run func(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error)
}

// asked are the options of a job.
type asked interface {
	options.Command
	// line is that command, with the flags of what t, the options, holds by then. It refuses options that make no sense.
	line(b *Bench, t options.Table) (string, error)
}

var kinds = []jobKind{
	{"open", "open a model, with its plan if it has one, or a plan", true, of((*openJob).run), options.Any, true},
	{"trial", "run the float model with each preprocessing and label offset", false, of((*trialJob).run), options.Any, false},
	{"calibrate", "run the model on data and choose all scales", true, of((*calibrateJob).run), options.Any, false},
	{"analyze", "measure the error, as a whole and by operator", false, of((*analyzeJob).run), options.Networks, false},
	{"dispatch", "keep operators in float: those named, or as few as a budget needs", true, of((*dispatchJob).run), options.Any, false},
	{"sweep", "calibrate with many options and keep the best plan", true, of((*sweepJob).run), options.Any, false},
	{"tune", "repair accuracy: biases, rounding of weights, scales, ranges of channels", true, of((*tuneJob).run), options.Any, false},
	{"eval", "measure accuracy on data with labels", false, of((*evalJob).run), options.Networks, false},
	{"compare", "run plans and models on the same samples", false, of((*compareJob).run), options.Any, false},
	{"verify", "run the plan on integers and check every one", true, of((*verifyJob).run), options.Any, false},
	{"export", "write the quantized model", true, of((*exportJob).run), options.Any, false},
	{"flips", "list the samples whose prediction changed", false, of((*flipsJob).run), options.Networks, false},
	{"sample-layers", "the error of one sample by operator", false, of((*sampleLayersJob).run), options.Networks, false},
	{"answers", "what the network answers: boxes, texts, maps of classes, outputs", false, of((*answersJob).run), options.Networks, false},
	{"feature", "a tensor inside the network on one sample", false, of((*featureJob).run), options.Networks, false},
	{"language-rank", "rank the matrices of a language model by what each does alone", false, of((*languageRank).run),
		options.Checkpoints, false},
	{"language-eval", "score the lines of a text with a language model", false, of((*languageEval).run), options.Checkpoints, false},
	{"language-generate", "continue a text in float and quantized", false, of((*languageGenerate).run), options.Checkpoints, false},
	{"import", "make a plan of a model that is quantized already", true, of((*importJob).run), options.Any, false},
}

// making is how work of a kind is made that was told nothing yet, and the type of what comes of it.
type making struct {
	New    func() work
	Result reflect.Type
}

// of is the making of jobs that do is the work of. A result that is missing is null in JSON.
func of[T, R any, P interface {
	*T
	asked
}](do func(P, context.Context, *Bench, *qwb.Project) (*R, []tqc.Warning, error)) making {
	return making{func() work {
		told := P(new(T))
		return work{told, func(ctx context.Context, b *Bench, p *qwb.Project) (any, []tqc.Warning, error) {
			r, w, err := do(told, ctx, b, p)
			if r == nil {
				return nil, w, err
			}
			return r, w, err
		}}
	}, reflect.TypeFor[*R]()}
}

// JobType is what a kind of job takes, and the type of what comes of it.
type JobType struct {
	Name    string
	Options []options.Shown
	Result  reflect.Type
}

// JobTypes are those of all kinds, for who writes them down for another language.
func JobTypes(c qwb.Catalog) []JobType {
	b := &Bench{o: Options{Project: qwb.Project{Catalog: c}}}
	list := make([]JobType, len(kinds))
	for i := range kinds {
		k := &kinds[i]
		list[i] = JobType{k.Name, k.table(b, k.New()).Shown(), k.Result}
	}
	return list
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

// bounded sets what a bench decides for all jobs: how many threads work, and what memory they may take.
func (b *Bench) bounded(d *qwb.DataOptions, threads *int, memory *int64) {
	d.Threads, d.Memory, *threads = b.o.Threads, b.o.Memory, b.o.Threads
	if memory != nil {
		*memory = b.o.Memory
	}
}

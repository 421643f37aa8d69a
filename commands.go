package qwb

import (
	"context"
	"io/fs"
	"strings"

	"qwb/analysis"
	"qwb/analysis/language"
	"qwb/analysis/tensors"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/exec"
	workadvise "qwb/internal/work/advise"
	"qwb/internal/work/bring"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/certify"
	"qwb/internal/work/compare"
	"qwb/internal/work/doctor"
	workexport "qwb/internal/work/export"
	"qwb/internal/work/journal"
	worklanguage "qwb/internal/work/language"
	"qwb/internal/work/measure"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/replace"
	"qwb/internal/work/search"
	"qwb/internal/work/sweep"
	worktune "qwb/internal/work/tune"
	workverify "qwb/internal/work/verify"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// What a project can do. Each method returns its result, the warnings that came up, and an error: a UsageError where what was asked for
// makes no sense, a CheckError where a check did not hold; with that the result is there too.

// run is what most methods are: a piece of work in a job of its own.
func run[O, R any](ctx context.Context, p *Project, work func(context.Context, *open.Job, O) (R, error), o O) (R, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (R, error) { return work(ctx, j, o) })
}

// in does something in a job of its own.
func in[R any](ctx context.Context, p *Project, work func(*open.Job) (R, error)) (R, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := work(j)
	return r, j.Warnings, err
}

// Calibrate observes the model on data, unless there are statistics already, chooses all scales for a platform, and writes plan and
// statistics, both or none. An interrupted run keeps its statistics, and goes on from them when it is repeated.
func (p *Project) Calibrate(ctx context.Context, o CalibrateOptions) (*CalibrateResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Observing)
	j := p.job().In(ctx)
	r, err := calibrate.Run(ctx, j, o)
	if _, statErr := fs.Stat(j.Files(), RunsPath(j.Plan)); statErr == nil { // calibrate alone writes plan and statistics, nothing else
		journal.Record(j, "calibrate", r, err, calibrate.Figures)
	}
	return r, j.Warnings, err
}

// CalibratePart observes the model on a part of the data and writes the statistics of that part, which Merge makes statistics of.
func (p *Project) CalibratePart(ctx context.Context, o CalibrateOptions) (*CalibrateResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Observing)
	return run(ctx, p, calibrate.Part, o)
}

// Merge puts the parts of a run together: out is, byte for byte, what one run gives.
func (p *Project) Merge(ctx context.Context, parts []string, out string) (*MergeResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*MergeResult, error) { return calibrate.Merge(ctx, j, parts, out) })
}

// Grams writes the Gram statistics of the data, or of a part of them, to o.Out. An interrupted run goes on when it is repeated.
func (p *Project) Grams(ctx context.Context, o TuneOptions) (*GramsResult, []tqc.Warning, error) {
	d := exec.Observing
	d.Largest = 0 // sums of products are kept of all weights
	ctx = exec.Doing(ctx, d)
	return run(ctx, p, worktune.Grams, o)
}

// Sweep calibrates the model with many combinations of options on one half of the samples, judges the plans on the other half, and writes
// the plan of the best combination; with the CheckError that too few samples give, nothing is written and the result is there too.
func (p *Project) Sweep(ctx context.Context, o SweepOptions) (*SweepResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Sweeping)
	j := p.job().In(ctx)
	r, err := sweep.Run(ctx, j, o)
	journal.Record(j, "sweep", r, err, sweep.Figures)
	return r, j.Warnings, err
}

// Analyze measures the error of the plan's simulation.
func (p *Project) Analyze(ctx context.Context, o AnalyzeOptions) (*analysis.Report, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Analyzing)
	j := p.job().In(ctx)
	r, err := workadvise.Analyze(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	journal.Record(j, "analyze", r, err, journal.On(j, o.Data, measure.AnalysisFigures))
	return r, j.Warnings, err
}

// Dispatch sends operators back to float, those that are named or those that a search finds, and writes the plan.
func (p *Project) Dispatch(ctx context.Context, o DispatchOptions) (*DispatchResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Dispatching)
	j := p.job().In(ctx)
	r, err := search.Run(ctx, j, o)
	err = planning.Changed(ctx, j, err, o.Data, o.Threads)
	journal.Record(j, "dispatch", r, err, journal.On(j, o.Data, search.Figures))
	return r, j.Warnings, err
}

// Tune changes constants of the quantized graph so that it computes more nearly what the float graph does, keeps what helps on samples
// that it was not fitted on, and writes plan and tuned values.
func (p *Project) Tune(ctx context.Context, o TuneOptions) (*TuneResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Tuning)
	j := p.job().In(ctx)
	r, err := worktune.Run(ctx, j, o, false)
	err = planning.Changed(ctx, j, err, o.Data, o.Threads)
	journal.Record(j, "tune", r, err, journal.On(j, o.Data, worktune.Figures))
	return r, j.Warnings, err
}

// Eval counts right answers on labelled data: of the plan, or of the model where the project has no plan.
func (p *Project) Eval(ctx context.Context, o EvalOptions) (*analysis.Accuracy, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Evaluating)
	j := p.job().In(ctx)
	r, err := measure.Eval(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	journal.Record(j, "eval", r, err, journal.On(j, o.Data, measure.EvalFigures))
	return r, j.Warnings, err
}

// Flips runs the float network, its simulation and its integers on every sample, and lists those whose class changed.
func (p *Project) Flips(ctx context.Context, o FlipsOptions) (*FlipsResult, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := measure.Flips(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	return r, j.Warnings, err
}

// Answers runs the float network, its simulation and its integers on every sample, and reads what comes out as metrics do: boxes, texts,
// maps of classes, and outputs as rows and colours.
func (p *Project) Answers(ctx context.Context, o AnswersOptions) (*AnswersResult, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := measure.Answers(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	return r, j.Warnings, err
}

// Feature is a tensor inside the network on one sample of the data, by its name: float, simulated, of the integers, and their difference.
func (p *Project) Feature(ctx context.Context, o FeatureOptions) (*FeatureMap, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := measure.Feature(ctx, j, o)
	return r, j.Warnings, err
}

// SampleLayers is the analysis of one sample of the data, by its name: the error at every operator, and of every operator alone.
func (p *Project) SampleLayers(ctx context.Context, o DataOptions, name string) (*analysis.Report, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := measure.SampleLayers(ctx, j, o, name)
	err = planning.Located(ctx, j, err, o, 0)
	return r, j.Warnings, err
}

// Doctor looks for what is wrong with the data of the model, or with those that the plan is evaluated with. With faults it returns a
// CheckError, and the result all the same.
func (p *Project) Doctor(ctx context.Context, o DoctorOptions) (*DoctorResult, []tqc.Warning, error) {
	return run(ctx, p, doctor.Run, o)
}

// DoctorFile looks for what the reader of a file's format would reject, or take as something else than is meant: the rules of the format,
// which every export goes through. With findings it returns a CheckError, and the result all the same.
func (p *Project) DoctorFile(ctx context.Context, o DoctorFileOptions) (*DoctorFileResult, []tqc.Warning, error) {
	return run(ctx, p, doctor.File, o)
}

// SecondReading holds what the catalog's second reader makes of the model to what qwb does.
func (p *Project) SecondReading(ctx context.Context) (*SecondReading, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*SecondReading, error) { return doctor.Second(ctx, j, p.Model) })
}

// EngineFaults lists what is known to be wrong in the engine that reads the files of a platform; version is the engine's, "" any.
func (p *Project) EngineFaults(ctx context.Context, platform, version string) ([]analysis.EngineFault, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) ([]analysis.EngineFault, error) { return doctor.EngineFaults(j, platform, version) })
}

// Verify runs the plan as integers, holds them against plan, simulation or recorded tensors, and writes the outcome into the plan. A
// verdict that something differs is a result and no error.
func (p *Project) Verify(ctx context.Context, o VerifyOptions) (*analysis.Verification, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Verifying)
	j := p.job().In(ctx)
	r, err := workverify.Run(ctx, j, o)
	if err != nil {
		err = planning.Located(ctx, j, err, o.Data, o.Threads)
	}
	journal.Record(j, "verify", r, err, workverify.Figures)
	return r, j.Warnings, err
}

// Export writes the project in one of the catalog's formats: its plan, or, where it has none, its checkpoint. What it writes is verified
// first, as far as that can be; where that does not hold nothing is written.
func (p *Project) Export(ctx context.Context, o ExportOptions) (*ExportResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Verifying)
	j := p.job().In(ctx)
	r, err := workexport.Run(ctx, j, o)
	if err != nil {
		err = planning.Located(ctx, j, err, DataOptions{}, o.Threads)
	}
	journal.Record(j, "export", r, err, workexport.Figures)
	return r, j.Warnings, err
}

// Import makes a plan of the model, which another tool or an export has quantized, and writes it with the float model behind it.
func (p *Project) Import(ctx context.Context, o ImportOptions) (*ImportResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*ImportResult, error) { return bring.Import(ctx, j, o, export.OneMessage) })
}

// Diff compares two plans or quantized models.
func (p *Project) Diff(ctx context.Context, o DiffOptions) (*DiffResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*DiffResult, error) { return compare.Diff(ctx, j, o.A, o.B) })
}

// Structures says which operators two plans or models share, and draws both where they are not the same.
func (p *Project) Structures(ctx context.Context, o DiffOptions) (*StructuresResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*StructuresResult, error) { return compare.Structures(ctx, j, o.A, o.B) })
}

// Replace puts other activations in the place of some of the model's, measures what that does, and writes the changed model.
func (p *Project) Replace(ctx context.Context, o ReplaceOptions) (*ReplaceResult, []tqc.Warning, error) {
	return run(ctx, p, replace.Run, o)
}

// Compare runs plans, models and recorded outputs on the same samples and tests every pair of them.
func (p *Project) Compare(ctx context.Context, o CompareOptions) (*CompareResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Evaluating)
	j := p.job().In(ctx)
	r, err := compare.Run(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	journal.Record(j, "compare", r, err, compare.Figures)
	for i, name := range o.Runs {
		if err == nil && strings.HasSuffix(name, PlanSuffix) {
			journal.RecordAt(j, name, "compare", r, journal.On(j, o.Data, compare.RunFigures(i)))
		}
	}
	return r, j.Warnings, err
}

// Certify measures the plan and writes a certificate: everything that the figures follow from by hash, and the figures.
func (p *Project) Certify(ctx context.Context, o CertifyOptions) (*CertifyResult, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := certify.Run(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	journal.Record(j, "certify", r, err, journal.On(j, o.Data, certify.Figures))
	return r, j.Warnings, err
}

// VerifyCertificate derives everything again that a certificate says. What differs is a CheckError, with the result.
func (p *Project) VerifyCertificate(ctx context.Context, o RecheckOptions) (*RecheckResult, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := certify.Verify(ctx, j, o)
	if err != nil {
		err = planning.Located(ctx, j, err, DataOptions{}, o.Threads)
	}
	return r, j.Warnings, err
}

// Gate holds a run or a certificate against limits. A limit that is missed is a CheckError, with the result.
func (p *Project) Gate(ctx context.Context, o GateOptions) (*GateReport, []tqc.Warning, error) {
	j := p.job().In(ctx)
	r, err := certify.Gate(ctx, j, o)
	journal.Record(j, "gate", r, err, certify.GateFigures)
	return r, j.Warnings, err
}

// Inspect says what is in the model.
func (p *Project) Inspect(ctx context.Context) (*analysis.Inspection, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*analysis.Inspection, error) { return j.Inspect(ctx, p.Model) })
}

// Support says where each operator of the model runs on a platform, and why, as far as that is known without the engine.
func (p *Project) Support(ctx context.Context, platform string) (*analysis.Support, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*analysis.Support, error) { return workexport.Support(ctx, j, p.Model, platform) })
}

// Run executes the model once as it is and writes its outputs.
func (p *Project) Run(ctx context.Context, o RunOptions) (*RunResult, []tqc.Warning, error) {
	ctx = exec.Doing(ctx, exec.Running)
	j := p.job().In(ctx)
	r, err := measure.Forward(ctx, j, o)
	err = planning.Located(ctx, j, err, o.Data, o.Threads)
	return r, j.Warnings, err
}

// Preprocess writes what the model is fed with.
func (p *Project) Preprocess(ctx context.Context, o PreprocessOptions) (*PreprocessResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*PreprocessResult, error) { return j.Preprocess(ctx, o) })
}

// Bind writes a copy of the model in which inputs and open dimensions have fixed values.
func (p *Project) Bind(ctx context.Context, o BindOptions) (*BindResult, []tqc.Warning, error) {
	return run(ctx, p, bring.Bind, o)
}

// EvalText scores the lines of a text with the language model.
func (p *Project) EvalText(ctx context.Context, o TextOptions) (*language.Result, []tqc.Warning, error) {
	return run(ctx, p, worklanguage.Eval, o)
}

// AnalyzeText ranks the matrices of the language model by what quantizing each alone does to its predictions.
func (p *Project) AnalyzeText(ctx context.Context, o TextOptions) (*language.Layers, []tqc.Warning, error) {
	return run(ctx, p, worklanguage.Layers, o)
}

// Generate continues a text with the language model.
func (p *Project) Generate(ctx context.Context, o GenerateOptions) (*Generated, []tqc.Warning, error) {
	return run(ctx, p, worklanguage.Generate, o)
}

// Target returns a platform that models are quantized for: by its name, or from the file of one (mynpu.yaml, ./mynpu.yaml). A name
// that does not exist is a UsageError.
func (p *Project) Target(platform string) (*target.Target, error) { return p.job().Target(platform) }

// KnownTarget is Target that finds the targets of other tools' models as well.
func (p *Project) KnownTarget(platform string) (*target.Target, error) {
	return p.job().KnownTarget(platform)
}

// CheckTarget reads a platform and holds its tables against its arithmetic, against what integer programs can compute and against the
// formats of the catalog. A platform that contradicts itself is a CheckError; what it contradicts itself in is there then.
func (p *Project) CheckTarget(platform string) (*TargetCheck, error) {
	return p.job().CheckTarget(platform)
}

// OpenDevice opens what a language model runs on, nil for the processor. It is to be closed after the engines on it.
func (p *Project) OpenDevice(backend string) (Device, error) { return p.job().OpenDevice(backend) }

// KeptAnalysis reads the last analysis that lies beside the plan, and the hash of the plan that it is of.
func (p *Project) KeptAnalysis() (hash string, r *analysis.Report, err error) {
	return journal.KeptAnalysis(p.job().Project)
}

// KeepAnalysis writes what an analysis found beside the plan that it is of. Parts that it was not asked for stay what an earlier one of the
// same plan and samples found. Another file of that name is left as it is, and that is an error.
func (p *Project) KeepAnalysis(r *analysis.Report) error {
	return journal.KeepAnalysis(p.job().Project, r)
}

// OpenModel loads the model as it is. It has to be closed.
func (p *Project) OpenModel() (*Model, []tqc.Warning, error) {
	return in(context.Background(), p, func(j *open.Job) (*Model, error) { return j.OpenModel(p.Model) })
}

// OpenNormal loads the model and brings it into the normal form that plans and statistics refer to. It has to be closed.
func (p *Project) OpenNormal() (*Model, []tqc.Warning, error) {
	return in(context.Background(), p, func(j *open.Job) (*Model, error) { return j.OpenNormal(p.Model) })
}

// OpenData opens a data set for the inputs of a graph.
func (p *Project) OpenData(g *graph.Graph, o DataOptions) (*data.Set, []tqc.Warning, error) {
	j := p.job()
	set, _, err := j.OpenData(g, o)
	return set, j.Warnings, err
}

// OpenPlan reads the plan and the model that it is for. They have to be closed.
func (p *Project) OpenPlan() (*Planned, []tqc.Warning, error) {
	return in(context.Background(), p, func(j *open.Job) (*Planned, error) { return planning.OpenPlan(j, p.Plan) })
}

// Statistics reads the statistics that the scales of a plan follow from, which is one that OpenPlan opened. They must not be changed.
func (p *Project) Statistics(r *Planned) (*calib.Stats, []tqc.Warning, error) {
	j := p.job()
	stats, err := planning.TunedStats(j, r)
	return stats, j.Warnings, err
}

// Tensors are the tensors of a plan, which is one that OpenPlan opened, for their figures. The statistics are read when they are first
// needed.
func (p *Project) Tensors(r *Planned) *tensors.Plan { return measure.TensorsOf(p.job(), r) }

// Set decides properties, key=value, of what a selector means, derives the plan anew and writes it. A UsageError says that selector or
// properties are no such; a selector that matches nothing, and what the target cannot do, are other errors, and the plan stays.
func (p *Project) Set(ctx context.Context, selector string, words []string, threads int) (*DecideResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*DecideResult, error) { return planning.Set(ctx, j, selector, words, threads) })
}

// Preview opens the plan as Set would make it. Nothing is written, and what it returns has to be closed.
func (p *Project) Preview(ctx context.Context, selector string, words []string, threads int) (*Planned, []tqc.Warning, error) {
	return planning.Preview(ctx, p.job().In(ctx), selector, words, threads)
}

// WhatIf says what Set would do: an estimate without running anything, the tensors whose figures change, and with Measure the error of the
// outputs before and after. Nothing is written. What Set refuses is refused in the same words.
func (p *Project) WhatIf(ctx context.Context, o WhatIfOptions) (*tensors.WhatIf, []tqc.Warning, error) {
	return run(ctx, p, measure.WhatIf, o)
}

// Unset takes decisions back: one by its number ("#3"), or all in force that have a selector.
func (p *Project) Unset(ctx context.Context, what string, threads int) (*DecideResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*DecideResult, error) { return planning.Unset(ctx, j, what, threads) })
}

// Undo takes back what the last command decided.
func (p *Project) Undo(ctx context.Context, threads int) (*DecideResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*DecideResult, error) { return stepped(ctx, j, threads, (*plan.Plan).Undo) })
}

// Redo does what was undone last again.
func (p *Project) Redo(ctx context.Context, threads int) (*DecideResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*DecideResult, error) { return stepped(ctx, j, threads, (*plan.Plan).Again) })
}

// Rederive replaces the plan's numbers, which another version may have derived, by what this one derives from its decisions.
func (p *Project) Rederive(ctx context.Context, threads int) (*DecideResult, []tqc.Warning, error) {
	return run(ctx, p, planning.Rederive, threads)
}

// Log lists the decisions of the plan.
func (p *Project) Log(ctx context.Context) (*LogResult, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) (*LogResult, error) { return planning.Log(ctx, j) })
}

// Show sums the plan up.
func (p *Project) Show() (*ShowResult, []tqc.Warning, error) {
	return in(context.Background(), p, func(j *open.Job) (*ShowResult, error) { return planning.Show(j) })
}

// Explain says of an operator of the plan what holds for it, and by which decisions.
func (p *Project) Explain(ctx context.Context, node string) (*ExplainResult, []tqc.Warning, error) {
	return run(ctx, p, planning.ExplainNode, node)
}

// ExplainOf is Explain for the plan that OpenPlan opened.
func (p *Project) ExplainOf(r *Planned, node string) (*ExplainResult, error) {
	return planning.ExplainOpen(p.job(), r, node)
}

// Recipe returns the plan's decisions in force as a recipe, in YAML.
func (p *Project) Recipe(ctx context.Context) ([]byte, []tqc.Warning, error) {
	return in(ctx, p, func(j *open.Job) ([]byte, error) { return planning.Recipe(ctx, j) })
}

// GC removes the files with tuned values beside the plan that none of its decisions names.
func (p *Project) GC() (*GCResult, []tqc.Warning, error) {
	return in(context.Background(), p, func(j *open.Job) (*GCResult, error) { return planning.GC(j) })
}

// stepped takes a step through the decisions, and adds what is known of the plan that it comes to.
func stepped(ctx context.Context, j *open.Job, threads int, edit func(*plan.Plan) (plan.Step, error)) (*DecideResult, error) {
	r, err := planning.Step(ctx, j, threads, edit)
	if r != nil {
		r.Runs = journal.Known(j)
	}
	return r, err
}

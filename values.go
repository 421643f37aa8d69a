package qwb

import (
	"context"
	"io"
	"io/fs"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/graph/language/checkpoint"
	"qwb/internal/work/certify"
	"qwb/internal/work/compare"
	"qwb/internal/work/doctor"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	worklanguage "qwb/internal/work/language"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/internal/work/search"
	"qwb/internal/work/store"
	"qwb/internal/work/sweep"
	worktune "qwb/internal/work/tune"
	workverify "qwb/internal/work/verify"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// WithError writes a figure with its error, where there is one.
func WithError(x float64, err *float64) string { return reports.WithError(x, err) }

// Values of options and results.
const (
	KindUsage       = fault.KindUsage       // UsageError, or a slot that is not there: ask for something else
	KindCheck       = fault.KindCheck       // CheckError: look at the result, which is there
	KindCanceled    = fault.KindCanceled    // the context is done
	KindChanged     = fault.KindChanged     // ChangedError: read the plan again
	KindUnsupported = fault.KindUnsupported // UnsupportedError: bring the operators along, or change the model
	KindMemory      = fault.KindMemory      // MemoryError: a smaller batch, or more memory
	KindDecision    = fault.KindDecision    // DecisionError: decide something else
	KindInput       = fault.KindInput       // a file is missing, damaged or of another kind, or a model is wrong: FileError, NodeError
	KindFailed      = fault.KindFailed      // anything else
	// PlanSuffix is how the names of plans end.
	PlanSuffix = store.PlanSuffix
	FloatCPU   = open.FloatCPU
	MaskAuto   = open.MaskAuto
	MaskNone   = open.MaskNone
	FloatCUDA  = open.FloatCUDA
	FloatPTX   = open.FloatPTX // the kernels for a GPU, interpreted
	// AnalysisSamples is how many samples of the plan's own data an analysis takes unless told otherwise.
	AnalysisSamples = samples.AnalysisSamples
	// VerifySamples is how many samples a verification takes unless told otherwise.
	VerifySamples = samples.VerifySamples
	ModeFloat     = worklanguage.ModeFloat // float32, of quantized weights what they stand for
	ModeSim       = worklanguage.ModeSim   // quantized weights, float activations
	ModeInt8      = worklanguage.ModeInt8  // both quantized: the integer kernels
	// ListedTokens is of how many tokens eval lists the scores.
	ListedTokens = worklanguage.ListedTokens
	// GenerateTokens is how many positions generate runs unless told otherwise.
	GenerateTokens = worklanguage.GenerateTokens
	// SearchSamples is how many samples of the plan's own data a search measures on unless told otherwise.
	SearchSamples = search.SearchSamples
	// What a search ranks operators by: each quantized alone, or estimates from gradients.
	RankLayerwise = search.RankLayerwise
	RankGradient  = search.RankGradient
	// What distill lowers: the squared error of outputs, or of class scores the divergence of probabilities.
	LossSquared = tune.SquaredLoss
	LossClasses = tune.ClassLoss
	// What block and distill move numbers by.
	OptimizerAdam = tune.Adam
	OptimizerSign = tune.SignSGD
	// CompareLayers is on how many samples compare measures the error at every operator unless told otherwise.
	CompareLayers = compare.CompareLayers
	// DoctorTrial is on how many labelled samples doctor tries preprocessings and label offsets unless told otherwise.
	DoctorTrial = doctor.Trial
	// Simulated is what the errors of a tuning are of where no integers are run.
	Simulated = worktune.Simulated
	// TuneSamples is how many samples of the plan's own data tuning reads unless told otherwise.
	TuneSamples        = worktune.TuneSamples
	ArithmeticFused    = certify.ArithmeticFused    // multiplication and addition with one rounding
	ArithmeticSeparate = certify.ArithmeticSeparate // with two
	RecheckEqual       = certify.RecheckEqual
	RecheckWithin      = certify.RecheckWithin // a stated bound: floats are those of another class of processors
	RecheckDifferent   = certify.RecheckDifferent
	RecheckSkipped     = certify.RecheckSkipped // cannot be derived here
	// CertifySamples is how many samples of the plan's own data certify takes unless told otherwise.
	CertifySamples     = certify.CertifySamples
	GranularityChannel = sweep.GranularityChannel
	GranularityTensor  = sweep.GranularityTensor
	// FormatDefault are the formats that a target takes unless told otherwise.
	FormatDefault = sweep.FormatDefault
	// HeldOutKept says that plans were judged on the samples that statistics keep: their scales were fitted on these samples.
	HeldOutKept = sweep.HeldOutKept
)

var (
	// Costings are the costs that a search can count, with what they are.
	Costings = search.Costings
	// SweepPlatforms are the targets that a sweep tries where neither it nor a plan names one: engines for ONNX files on common machines, and
	// integers without multipliers. All there are would be too many.
	SweepPlatforms = sweep.SweepPlatforms
)

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return fault.Usagef(format, args...) }

// Checkf makes a CheckError.
func Checkf(format string, args ...any) error { return fault.Checkf(format, args...) }

// Describe says what an error is and where it happened. The error must not be nil.
func Describe(err error) Fault { return fault.Describe(err) }

// StatsPath is where the statistics lie that belong to a plan.
func StatsPath(plan string) string { return store.StatsPath(plan) }

// FreePlan is the name of a plan that is not there yet: name, name.2, name.3 and so on, with PlanSuffix.
func FreePlan(files fs.FS, name string) string { return store.FreePlan(files, name) }

// WriteFile replaces a file as a whole and returns the SHA-256 of what was written.
func WriteFile(s Store, name string, write func(io.Writer) error) (sum string, err error) {
	return store.WriteFile(s, name, write)
}

// BaseName is the name of a file without folders and extension.
func BaseName(name string) string { return store.BaseName(name) }

// CheckFloatBackend says that a language model cannot be run on a backend. Empty is the processor.
func CheckFloatBackend(name string) error { return open.CheckFloatBackend(name) }

// ParseShard reads I/N, for example 1/4.
func ParseShard(s string) (Shard, error) { return open.ParseShard(s) }

// AnalysisPath is where the last analysis of a plan lies, for the workbench to show. Nothing is lost without it.
func AnalysisPath(planFile string) string { return journal.AnalysisPath(planFile) }

// RunsPath is where the outcomes lie of what was run on a plan.
func RunsPath(planFile string) string { return journal.RunsPath(planFile) }

// RunStates are the states that a plan went through, as RunsPath names them: before its first decision, and after each.
func RunStates(p *plan.Plan) ([]string, error) { return journal.States(p) }

// Configure dispatches a normal graph for a target and chooses all scales from its statistics, activations by an observer.
func Configure(ctx context.Context, g *graph.Graph, stats *calib.Stats, t *target.Target, observer tqc.Observer,
	threads int) (*tqc.Set, error) {
	return planning.Configure(ctx, g, stats, t, observer, threads)
}

// OverlayFiles lists, sorted, the files of tuned values that lie beside a plan, whether it names them or not.
func OverlayFiles(s Store, planFile string) ([]string, error) {
	return planning.OverlayFiles(s, planFile)
}

// OpenCheckpoint opens a checkpoint, or says what the file is instead.
func OpenCheckpoint(path string) (*checkpoint.Model, error) { return worklanguage.OpenCheckpoint(path) }

// OpenLanguage opens a checkpoint and its tokenizer.
func OpenLanguage(file, tokenizer string) (*Language, error) {
	return worklanguage.OpenLanguage(file, tokenizer)
}

// CostWords writes a cost in one line, as plan show does.
func CostWords(c analysis.Cost) string { return search.CostWords(c) }

// ParseCostLimit reads 80%, 1.5M, 200000 or, as a time, 2ms, in either case.
func ParseCostLimit(text string, time bool) (*CostLimit, error) {
	return search.ParseCostLimit(text, time)
}

// Divergence is a verification that does not hold in one line.
func Divergence(v *analysis.Verification) string { return workverify.Divergence(v) }

// Diverged is Divergence as the CheckError of a command: where numbers are not finite Describe names the operator that makes them.
func Diverged(command string, v *analysis.Verification, then string) error {
	return workverify.Diverged(command, v, then)
}

// SealCertificate returns the file of a certificate, with the hash of its content.
func SealCertificate(c *Certificate) ([]byte, error) { return certify.SealCertificate(c) }

// SweepObservers are the methods that a sweep tries unless told otherwise.
func SweepObservers() []tqc.Observer { return sweep.SweepObservers() }

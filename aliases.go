package qwb

import (
	"qwb/analysis"
	"qwb/internal/work/bring"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/certify"
	"qwb/internal/work/compare"
	"qwb/internal/work/doctor"
	workexport "qwb/internal/work/export"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	worklanguage "qwb/internal/work/language"
	"qwb/internal/work/measure"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/replace"
	"qwb/internal/work/search"
	"qwb/internal/work/store"
	"qwb/internal/work/sweep"
	worktune "qwb/internal/work/tune"
	workverify "qwb/internal/work/verify"
)

// What the methods of a Project take and give. It is declared where the work is done.
type (
	// UsageError says that what was asked for makes no sense: an unknown name, options that exclude each other. The command line ends with
	// exit code 2.
	UsageError = fault.UsageError
	// CheckError says that a check did not hold: a gate was missed, a budget not reached, a verification differs. The result is there all
	// the same. The command line ends with exit code 3.
	CheckError = fault.CheckError
	// FileError says which file something is wrong with.
	FileError = fault.FileError
	// NodeError says which operator of a model something is wrong with.
	NodeError = fault.NodeError
	// UnsupportedError lists the operators of a model that cannot be computed.
	UnsupportedError = fault.UnsupportedError
	// MemoryError says that a run would take more memory than it may.
	MemoryError = fault.MemoryError
	// DecisionError says that a decision about a plan cannot be kept, and which.
	DecisionError = fault.DecisionError
	// ErrorKind is what a program does about an error.
	ErrorKind = fault.ErrorKind
	// Fault is an error as plain data: what the command line prints with --json.
	Fault = fault.Fault
	// ChangedError says that a file is not the one that was read: somebody else wrote it meanwhile.
	ChangedError = fault.ChangedError

	// Store is where a project's files are: model, data, plan, statistics, exports. Files are opened by the names that a project and its
	// options give them; files that are opened can be read at an offset (io.ReaderAt), and folders can be listed. A store may be used by
	// several projects at once.
	Store = store.Store
	// Stage collects files that get their names together, when all are there: all or none.
	Stage = store.Stage
	// Memory is a store in memory: for tests, and for programs without files, such as a page in a browser. Names are paths with slashes,
	// relative to one root; a leading slash means nothing. The zero value is empty and ready. It may be used from several goroutines.
	Memory = store.Memory
	// OS is the store of the operating system's files, by any path that it takes.
	OS = store.OS

	// Language is a checkpoint that is ready to be run on text.
	Language = open.Language
	// DataOptions is a data set as the command line names it.
	DataOptions = open.DataOptions
	// MetricOptions say what scores a network. The zero value is top-1 for data with labels, and agreement with float for data without.
	MetricOptions = open.MetricOptions
	// MetricCommand is a running program that scores outputs.
	MetricCommand = open.MetricCommand
	// Model is a loaded ONNX file, or the graph of a checkpoint. Graph is the file's graph, or its normal form; loaded is always the
	// file's.
	Model = open.Model
	// OperatorInfo says who has something of its own for an operator on integers.
	OperatorInfo = open.OperatorInfo
	// PreprocessOptions are the arguments of preprocess.
	PreprocessOptions = open.PreprocessOptions
	// PreprocessResult says what was written, in the order of the samples.
	PreprocessResult = open.PreprocessResult
	// Catalog is what a process offers its projects. The zero value has no backend for integers, so that nothing can be verified.
	Catalog = open.Catalog
	// Device is what float models run on in place of the processor: calibration and language models.
	Device = open.Device
	// Events are what a method says while it works. They come from one goroutine at a time, but for the function that Progress returns,
	// which any may call.
	Events = open.Events
	// Shard is one part of a data set that is worked on in parts: part Index (from 1) of Of, every Of-th sample. The zero value is no part.
	Shard = open.Shard
	// TargetCheck is what there is to say of a platform's file that can be read.
	TargetCheck = open.TargetCheck
	// TargetInfo is one platform in a list.
	TargetInfo = open.TargetInfo

	// Outcome is what a command found about a plan.
	Outcome = journal.Outcome
	// OutcomeFigure is a value of an outcome.
	OutcomeFigure = journal.Figure

	// Planned is a plan with the model it is for, ready to run.
	Planned = planning.Planned
	// Figure is a budget's metric on some samples.
	Figure = analysis.BudgetFigure
	// DecideResult is what set, unset, undo, redo and rederive print with --json.
	DecideResult = planning.DecideResult
	// Governed is a slot that takes its scale from another.
	Governed = planning.Governed
	// CostChange is what a plan costs before and after a search.
	CostChange = analysis.CostChange
	// OnIntegers is where the multiply-accumulates of a network ran before a command and run after it.
	OnIntegers = analysis.OnIntegers
	// LogResult is what plan log prints with --json.
	LogResult = planning.LogResult
	// Logged is a decision with its place in the plan.
	Logged = planning.Logged
	// Undone is a command that redo does again, with what was found of the plan that it made.
	Undone = planning.Undone
	// ShowResult is what plan show prints with --json.
	ShowResult = planning.ShowResult
	// ExplainResult is what plan explain prints with --json.
	ExplainResult = planning.ExplainResult
	// SlotExplained is one input or output.
	SlotExplained = planning.SlotExplained
	// Because is a property with the decision that it comes from.
	Because = planning.Because
	// GCResult is what plan gc prints with --json.
	GCResult = planning.GCResult
	// TuneEvidence is what a decision by tune was made on, as the plan keeps it.
	TuneEvidence = planning.TuneEvidence
	// MethodEvidence is what came of one method: operators that it was tried at and kept at, the error of the outputs before and after.
	MethodEvidence = planning.MethodEvidence

	// LanguageOptions are the arguments that commands which run checkpoints share.
	LanguageOptions = worklanguage.LanguageOptions
	// TextOptions are the arguments of eval and analyze with --text.
	TextOptions = worklanguage.TextOptions
	// GenerateOptions are the arguments of generate.
	GenerateOptions = worklanguage.GenerateOptions
	// Generated is what generate --json prints.
	Generated = worklanguage.Generated

	// WhatIfOptions are the arguments of what-if.
	WhatIfOptions = measure.WhatIfOptions
	// AnalyzeOptions are the arguments of analyze.
	AnalyzeOptions = measure.AnalyzeOptions
	// EvalOptions are the arguments of eval.
	EvalOptions = measure.EvalOptions
	// FlipsOptions are the arguments of Flips.
	FlipsOptions = measure.FlipsOptions
	// FlipsResult says which samples a classifier takes for something else once it is quantized.
	FlipsResult = analysis.FlipsResult
	// AnswersOptions are the arguments of Answers.
	AnswersOptions = measure.AnswersOptions
	// AnswersResult is what a network answers sample by sample, in float, simulated and on integers.
	AnswersResult = analysis.AnswersResult
	// FeatureOptions are the arguments of Feature.
	FeatureOptions = measure.FeatureOptions
	// FeatureMap is a tensor inside the network on one sample.
	FeatureMap = analysis.FeatureMap
	// Confused counts samples that float takes for one class and the quantized network for another.
	Confused = analysis.Confused
	// Flip is one sample.
	Flip = analysis.Flip
	// Prediction is what a classifier says of a sample.
	Prediction = analysis.Prediction
	// ClassOf is a class with its share.
	ClassOf = analysis.ClassOf
	// RunOptions are the arguments of run.
	RunOptions = measure.RunOptions
	// RunResult says where the outputs are: of one run in the order in which the model has them, of samples in the order of these.
	RunResult = measure.RunResult

	// DispatchOptions are the arguments of dispatch.
	DispatchOptions = search.Options
	// DispatchResult is what dispatch --json prints.
	DispatchResult = search.Result
	// Budget is what a search has to reach.
	Budget = search.Budget
	// Added is by how much the integers of a profile are worse than the simulation on the same held-out samples, in the budget's terms.
	Added = analysis.IntegersAdded
	// Found is what a search found and what it may claim.
	Found = search.Found
	// Costing says what a search counts as the cost of a plan.
	Costing = search.Costing
	// CostLimit is what a plan may cost at most.
	CostLimit = search.CostLimit

	// CompareOptions are the arguments of compare.
	CompareOptions = compare.Options
	// CompareResult is what compare --json prints.
	CompareResult = compare.Result
	// DiffOptions are the arguments of diff: plans or quantized models.
	DiffOptions = compare.DiffOptions
	// DiffResult is what diff --json prints.
	DiffResult = compare.DiffResult
	// StructuresResult says which operators two networks share.
	StructuresResult = compare.StructuresResult

	// DoctorOptions are the arguments of doctor.
	DoctorOptions = doctor.Options
	// Finding is something that doctor says: of level fault where results will be wrong, hint where somebody should look.
	Finding = doctor.Finding
	// DoctorResult is what doctor found out about a model's data.
	DoctorResult = doctor.Result
	// SecondReading is a model as a second reader of ONNX sees it.
	SecondReading = doctor.SecondReading
	// SecondReader is another reader of ONNX, for Catalog.SecondReader.
	SecondReader = open.SecondReader
	// DoctorFileOptions are the arguments of doctor for a file that was exported, by qwb or by another tool.
	DoctorFileOptions = doctor.FileOptions
	// DoctorFileResult is what doctor found in a file.
	DoctorFileResult = doctor.FileResult
	// DoctorChoice is a preprocessing and a label offset, and how often the float model is right with them.
	DoctorChoice = doctor.DoctorChoice
	// DoctorBest is the choice that was best on one half of the samples, on the other half: beside what was asked for there, and the chance
	// that it does so much better where it is no better (exact paired test).
	DoctorBest = doctor.DoctorBest

	// ExportVerification is how what was exported was verified. Verdict, digest and all that the digest is of are those of the plan's
	// Verification.
	ExportVerification = workverify.ExportVerification
	// VerifyOptions are the arguments of verify.
	VerifyOptions = workverify.Options

	// GramsResult is what tune --shard --json prints.
	GramsResult = worktune.GramsResult
	// TuneOptions are the arguments of tune.
	TuneOptions = worktune.Options
	// TuneResult is what tune --json prints. Before and After are the error of the outputs on the held-out samples, see tune.Judge.
	TuneResult = worktune.Result

	// CheckpointVerification says what reading the file of a checkpoint back and running it found.
	CheckpointVerification = workexport.CheckpointVerification
	// ExportOptions are the arguments of export. The zero value is usable.
	ExportOptions = workexport.Options
	// ExportResult is what export --json prints.
	ExportResult = workexport.Result

	// CalibrateOptions are the arguments of calibrate.
	CalibrateOptions = calibrate.Options
	// CalibrateResult is what calibrate --json prints.
	CalibrateResult = calibrate.Result
	// Hint says what another observer would give, measured on the samples that statistics keep. It confirms nothing: the scales were fitted on
	// these samples, and they are few.
	Hint = calibrate.Hint
	// MergeResult is what merge --json prints.
	MergeResult = calibrate.MergeResult
	// GateResult is what a gate of a recipe measured.
	GateResult = calibrate.GateResult

	// Certificate is a record of what a plan was measured to be: everything by hash that the figures follow from, the figures, and enough of
	// each sample to say which one gives something else. VerifyCertificate derives all of it again.
	Certificate = certify.Certificate
	// Tool is what wrote a certificate.
	Tool = certify.Tool
	// CertifiedPlan is a plan in a certificate.
	CertifiedPlan = certify.CertifiedPlan
	// CertifiedData is what the figures were measured on.
	CertifiedData = certify.CertifiedData
	// CertifiedFigures are what the plan's simulation was measured to do to the network.
	CertifiedFigures = certify.CertifiedFigures
	// CertifiedSlice is an analysis.SliceError of a part that counts, without what is null.
	CertifiedSlice = certify.CertifiedSlice
	// Certified is a verification in a certificate.
	Certified = certify.Certified
	// CertifiedFile is a file that was exported from the plan.
	CertifiedFile = certify.CertifiedFile
	// RecheckOptions are the arguments of verify-certificate. Files that are not named are where the certificate says, relative to its folder.
	RecheckOptions = certify.RecheckOptions
	// RecheckResult is what verify-certificate --json prints.
	RecheckResult = certify.RecheckResult
	// Recheck is one thing that a certificate says.
	Recheck = certify.Recheck
	// CertificateKey is a public key that the envelope of a certificate may have been signed with.
	CertificateKey = certify.Key
	// CertifyOptions are the arguments of certify.
	CertifyOptions = certify.Options
	// CertifyResult is what certify --json prints.
	CertifyResult = certify.Result
	// GateOptions are the arguments of gate.
	GateOptions = certify.GateOptions
	// GateReport is what gate --json prints.
	GateReport = analysis.GateReport

	// BindOptions are the arguments of bind.
	BindOptions = bring.BindOptions
	// BindResult is what bind --json prints.
	BindResult = bring.BindResult
	// ImportOptions are the arguments of import.
	ImportOptions = bring.ImportOptions
	// ImportResult is what import --json prints.
	ImportResult = bring.ImportResult
	// Trained says which scales of a quantized file were trained, or came about in another way than by calibrating: those that are not what
	// calibration of the float model gives.
	Trained = bring.Trained
	// TrainedTensor holds the scales of a tensor against those that calibration gives. Arrays have one number per channel or group, or one.
	TrainedTensor = bring.TrainedTensor

	// SweepOptions are the arguments of sweep: what is tried in all combinations. An empty list is the default that it names.
	SweepOptions = sweep.Options
	// SweepRow is one plan that was tried.
	SweepRow = sweep.Row
	// Answered is how often a plan answers right, where samples have labels.
	Answered = sweep.Answered
	// Skipped is a combination that there is no plan for.
	Skipped = sweep.Skipped
	// SweepResult is what sweep --json prints.
	SweepResult = sweep.Result
	// SweepEvidence is what a calibration was chosen on, as the plan keeps it: the plan was calibrated on the samples that are not held out,
	// and its error is that on the others. The scales that the plan holds come from both.
	SweepEvidence = sweep.Evidence

	// ReplaceOptions are the arguments of replace.
	ReplaceOptions = replace.Options
	// ReplaceResult is what replace --json prints.
	ReplaceResult = replace.Result
	// Replaced is what one replacement did.
	Replaced = replace.Replaced
)

package options

import (
	"fmt"
	"slices"

	"qwb"
	"qwb/analysis"
	"qwb/quantizer/tqc"
)

// Calibrate are the options of calibrate.
type Calibrate struct {
	qwb.CalibrateOptions
	Out  string // plan to write, or the statistics of a part
	JSON bool
}

func (o *Calibrate) Table(c *qwb.Catalog) Table {
	platform := Platform(c, &o.Platform, "target to quantize for: "+words(Platforms(c))+", or a YAML file")
	platform[0].Field = &Field{Label: "Target", Type: "select", List: "targets"}
	return slices.Concat(platform,
		Data(&o.Data),
		Labels(&o.Data, "TSV or MNIST label file: statistics and plan then say which classes the samples cover (nothing else depends on it)"),
		Table{
			{Name: "observer", At: (*string)(&o.Observer), Job: true,
				Field: &Field{Label: "Observer", Type: "select", List: "observers", None: "target's default",
					Doc: "How ranges of activations are chosen from the statistics. The view Sweep compares them."}, Values: EveryObserver,
				Help: "calibration method for activations: auto, " +
					words(Observers()) + ", or percentile(0.999) (default: the target's); or the range that another tool chooses: " + words(Peers())},
			{Name: "reduce-range", At: &o.ReduceRange, Job: true, Help: "7-bit weights, for CPUs whose 16-bit sums saturate (x86 without VNNI)"},
			{Name: "per-tensor", At: &o.PerTensor, Job: true, Field: &Field{Label: "One scale per weight tensor (default: one per channel)"},
				Help: "one scale per weight tensor instead of one per channel"},
			{Name: "dispatcher", See: "dispatch.md", At: &o.Dispatcher, Job: true, Values: Dispatchers,
				Help: "strategy that selects the operators to quantize: " + words(Dispatchers())},
			{Name: "border-cost", See: "dispatch.md", At: &o.BorderCost, Job: true,
				Help: "multiply-accumulates that must be quantized to pay for converting one element between float and integer; 0: conversion is " +
					"free (default: the target's)"},
			{Name: "recipe", See: "recipes.md", At: &o.Recipes, Job: true, Values: recipes, Files: true,
				Help: "`FILE` with decisions, tuning and gates, applied after these options (qwb plan recipe writes one); or preset:NAME " +
					"(" + words(presets()) + "), nncf:FILE, ort:FILE, trt:FILE, modelopt:FILE or quark:FILE; may be given several times"},
			{Name: "from", At: &o.From, Job: true, Files: true,
				Help: "another plan `PLAN` of the model, which stays as it is: the new one, named by -o, begins with its decisions and its " +
					"preprocessing and, without --data, with its statistics"},
			{Name: "mask", At: &o.Data.Mask, Default: qwb.MaskAuto, For: Networks, Job: true, Values: fixed(),
				Help: "`NAME` of the input that marks padding: positions that it masks are in no range and no error; " + qwb.MaskAuto +
					": the one in front of a Softmax, if there is one; " + qwb.MaskNone + ": every position counts"},
			{Name: "fresh", At: &o.Fresh, Job: true, Field: &Field{Label: "Drop the decisions of the plan that is there"},
				Help: "drop the decisions of an existing plan"},
			{Name: "batch", At: &o.Batch, Default: 1, Job: true, Values: fixed(),
				Help: "samples per forward pass, if the model takes batches; results do not depend on it"},
			{Name: "merge", At: &o.Merge, Help: "`STATS` files to merge instead of running data: --merge A.stats B.stats"},
			{Name: "shard", At: &shard{at: &o.Shard},
				Help: "part of the data, `I/N`: process part I of N and write its statistics to -o PART; qwb merge combines all parts"},
			{Name: "minmax-only", At: &o.MinMaxOnly, Job: true,
				Help: "record only minimum and maximum: faster, but the statistics work with --observer minmax only"},
		},
		FloatBackend(&o.Backend, "what runs the float model: "),
		Tokenizer(&o.Data), Threads(&o.Threads, &o.Data.Threads),
		memoryFor(&o.Memory, "memory for activations and for samples read in advance, for example 512M or 4G; limits --batch and the "+
			"number of samples in work"),
		Output(&o.Out, "plan to write, ending in "+qwb.PlanSuffix), JSON(&o.JSON))
}

// Check holds the options against each other.
func (o *Calibrate) Check() error {
	data, part := len(o.Data.Paths) > 0, o.Shard != qwb.Shard{}
	switch {
	case o.MinMaxOnly && !data:
		return qwb.Usagef("--minmax-only needs --data")
	case o.MinMaxOnly && o.Observer != "" && o.Observer != tqc.ObserverMinMax:
		return qwb.Usagef("--minmax-only works with --observer minmax only; remove one of the two flags")
	case len(o.Merge) > 0 && data:
		return qwb.Usagef("--merge replaces --data: give only one of them")
	case o.Backend != "" && !slices.Contains(floatBackends, o.Backend):
		return qwb.Usagef("unknown backend %q: one of %s", o.Backend, words(floatBackends))
	case o.Backend != "" && o.Backend != qwb.FloatCPU && !data:
		return qwb.Usagef("--backend needs --data: it selects what runs the model")
	case part && o.Out == "":
		return qwb.Usagef("--shard needs -o: the file to write")
	case part && (!data || len(o.Merge) > 0):
		return qwb.Usagef("--shard needs --data and does not go with --merge")
	}
	if o.MinMaxOnly {
		o.Observer = tqc.ObserverMinMax
	}
	return nil
}

// Sweep are the options of sweep.
type Sweep struct {
	qwb.SweepOptions
	observers []string
	Out       string
	Cut       Cut
	JSON      bool
}

func (o *Sweep) Table(c *qwb.Catalog) Table {
	return slices.Concat(
		Data(&o.Data), Labels(&o.Data, "labels of the samples: TSV or MNIST label file"),
		Table{
			{Name: "observers", See: "sweep.md", At: (*List)(&o.observers), Job: true,
				Field: &Field{Label: "Observers", Type: "many", List: "observers", Value: []string{},
					Doc: "How ranges of activations are chosen. None ticked: the default set."}, Values: sweepObservers,
				Help: "calibration methods to try, separated by commas (default: " + words(sweepObservers()) + ")"},
			{Name: "platforms", At: (*List)(&o.Platforms), Job: true, Field: &Field{Label: "Targets", Type: "many", List: "targets",
				Doc: "The engine or chip that the plan is for."}, Values: func() []string { return PlatformsHere(c) },
				Help: "targets to try, separated by commas: " + words(Platforms(c)) + ", or YAML files (default: that of the plan; without a plan " +
					words(qwb.SweepPlatforms) + ")"},
			{Name: "granularity", At: (*List)(&o.Granularities), Job: true, Field: &Field{Label: "Scales of weights", Type: "many",
				Value:   []string{qwb.GranularityChannel},
				Choices: []Choice{{qwb.GranularityChannel, "one per channel"}, {qwb.GranularityTensor, "one per tensor"}}},
				Values: fixed(qwb.GranularityChannel, qwb.GranularityTensor),
				Help:   "scales of weights to try: channel (one per output channel), tensor, or both: channel,tensor (default: channel)"},
			{Name: "dispatchers", At: (*List)(&o.Dispatchers), Job: true, Values: Dispatchers,
				Help: "dispatchers to try, separated by commas: " + words(Dispatchers()) + " (default: " + Dispatchers()[0] + ")"},
			{Name: "formats", At: &o.Formats, Job: true,
				Help: "properties for all operators to try, as qwb set has them: 'weights=int4-sym-channel', 'domain=fp16', or " +
					"" + qwb.FormatDefault + "; may be repeated (default: " + qwb.FormatDefault + ")"},
			{Name: "peers", At: &o.Peers, Job: true, Help: "also the ranges that other tools would choose (docs/peers.md)"},
			{Name: "device", At: &o.Device, Job: true,
				Help: "device file to predict times by: of plans that cannot be told apart the fastest is taken (default: the one with the least " +
					"work)"},
			{Name: "fresh", At: &o.Fresh, Job: true, Field: &Field{Label: "Replace the plan that is open, in place of writing another one"},
				Help: "replace the plan that is there, also one that has decisions of its own"},
			{Name: "force", At: &o.Force, Job: true,
				Help: fmt.Sprintf("write the best plan even if fewer than %d samples are held out", analysis.MinHeldOut)},
			{Name: "batch", At: &o.Batch, Default: 1, Job: true, Values: fixed(),
				Help: "samples per forward pass of calibration, if the model takes batches; results do not depend on it"},
		},
		Slices(&o.Data), Tokenizer(&o.Data), Parts(&o.Cut, ""), Threads(&o.Threads, &o.Data.Threads),
		memoryFor(&o.Memory, "memory for activations and for samples, for example 512M or 4G"),
		Output(&o.Out, "plan to write, ending in "+qwb.PlanSuffix), JSON(&o.JSON))
}

// Check holds the options against each other.
func (o *Sweep) Check() error {
	if len(o.Data.Paths) == 0 && o.Data.Labels != "" {
		return qwb.Usagef("--labels needs --data")
	}
	o.Observers = nil
	for _, name := range o.observers {
		o.Observers = append(o.Observers, tqc.Observer(name))
	}
	return nil
}

// Import are the options of import.
type Import struct {
	qwb.ImportOptions
	Out  string
	JSON bool
}

func (o *Import) Table(c *qwb.Catalog) Table {
	data := Data(&o.Data)
	data.Find("data").Help = "samples to calibrate the float model on, to compare with the scales of the file; forms as in qwb calibrate; " +
		"may be repeated"
	data.Find("preprocess").Help = "preprocessing to store in the plan: imagenet-torch, imagenet-inception, imagenet-caffe, none, or a " +
		"YAML file"
	return slices.Concat(
		Platform(c, &o.Platform, "target of the plan: "+words(Platforms(c))+", tflite, onnx (default: detected from the file)"),
		Table{{Name: "float", At: &o.Float, Job: true,
			Help: "float `MODEL` that was quantized: its weights and activations are taken, once it was found to be the same network"},
			{Name: "encodings", See: "encodings.md", At: &o.Encodings, Job: true,
				Help: "`FILE` of AIMET's encodings that the model, a float one, was saved with (0.6.1 to 2.1.0)"}}, data,
		Table{{Name: "observer", At: (*string)(&o.Observer), Job: true, Values: EveryObserver,
			Help: "calibration method for activations to compare with: auto, " +
				words(Observers()) + ", or percentile(0.999) (default: the target's)"}},
		Output(&o.Out, "plan to write (default: MODEL.plan.json in the current folder)"), JSON(&o.JSON),
		Threads(&o.Threads, &o.Data.Threads), Memory(&o.Memory))
}

// Check holds the options against each other.
func (o *Import) Check() error {
	if len(o.Data.Paths) == 0 && (o.Observer != "" || o.Data.Samples > 0) {
		return qwb.Usagef("--observer and --samples need --data: they calibrate the float model")
	}
	return nil
}

// Preprocess are the options of preprocess.
type Preprocess struct {
	qwb.PreprocessOptions
	JSON bool
}

func (o *Preprocess) Table(*qwb.Catalog) Table {
	return slices.Concat(Data(&o.Data), Tokenizer(&o.Data), Threads(&o.Data.Threads), JSON(&o.JSON),
		Table{{Name: "dump", At: &o.Dump, Help: "folder for the npy or npz files"}})
}

// Doctor are the options of doctor: of data, or of an exported file.
type Doctor struct {
	qwb.DoctorOptions
	Platform, Format, EngineVersion, SARIF string
	Second, JSON                           bool
}

func (o *Doctor) Table(c *qwb.Catalog) Table {
	platform := Platform(c, &o.Platform, "target of an exported file: "+words(Platforms(c)))
	platform[0].Job = false
	return slices.Concat(platform,
		Table{{Name: "format", At: &o.Format, Values: func() []string { return formats(c) },
			Help: "its format, as in qwb export (default: that of the target)"},
			{Name: "engine-version", See: "engines.md#faults-of-engines", At: &o.EngineVersion,
				Help: "with --platform: version of the engine whose known faults are looked for (default: the newest that is known)"}},
		Data(&o.Data), Labels(&o.Data, "TSV or MNIST label file"),
		Table{{Name: "trial", At: &o.Trial, Default: qwb.DoctorTrial, Job: true,
			Help: "labelled samples on which preprocessings and label offsets are tried"},
			{Name: "second-reader", At: &o.Second,
				Help: "read an ONNX model by onnx-go as well, and compare operators and edges; by itself, in a program built with -tags onnxgo"},
			{Name: "sarif", See: "gate.md", At: &o.SARIF, Help: "write the findings as SARIF 2.1.0 to this `FILE`"}},
		Threads(&o.Threads, &o.Data.Threads), Budget(&o.Data.Budget), JSON(&o.JSON))
}

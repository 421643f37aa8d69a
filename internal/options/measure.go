package options

import (
	"math"
	"slices"

	"qwb"
)

// Analyze are the options of analyze, of a plan or of a language model.
type Analyze struct {
	qwb.AnalyzeOptions
	Texts            qwb.TextOptions
	All              bool
	HTML, PNG, Nodes string // files and folder of reports
	Cut              Cut
	JSON             bool
}

func (o *Analyze) Table(*qwb.Catalog) Table {
	return slices.Concat(Data(&o.Data),
		Table{
			{Name: "graphwise", At: &o.Graphwise, For: Networks, Job: true, Help: "accumulated error at every operator of the quantized graph"},
			{Name: "layerwise", At: &o.Layerwise, Job: true, Help: "error of each operator quantized alone"},
			{Name: "statistical", At: &o.Statistical, For: Networks, Job: true, Help: "ranges and histograms of every tensor"},
			{Name: "split", At: &o.Split, For: Networks, Job: true,
				Help: "with --layerwise: split the error at the operator's own output into weights and activations"},
			{Name: "sensitivity", See: "reports.md#where-to-look-first", At: &o.Sensitivity, For: Networks, Job: true,
				Help: "estimate of --layerwise from gradients: one backward pass for each sample"},
			{Name: "formats", See: "reports.md#where-to-look-first", At: (*Commas)(&o.Formats), For: Networks, Job: true,
				Help: "with --sensitivity: also estimate every operator in these formats (int4, int16, fp16, ..., as dispatch has them)"},
			{Name: "explain", See: "verify.md", At: &o.Explain, For: Networks, Job: true, Help: "causes of the error of the integer program"},
			{Name: "peers", At: &o.Peers, For: Networks, Job: true,
				Help: "with --statistical: also the ranges that other tools would choose by their defaults (docs/peers.md)"},
			{Name: "try", See: "advice.md", At: &o.Try, For: Networks, Job: true,
				Help: "with --layerwise: try each command that is advised, without changing the plan, and print what it does"},
			{Name: "cause", See: "advice.md", At: (*Commas)(&o.Causes), For: Networks, Job: true,
				Help: "with --try: only commands that are advised for these causes, for example weight-mean-shift"},
			{Name: "all", At: &o.All, Help: "print all rows of all tables (default: the ten most important)"},
			{Name: "html", See: "reports.md", At: &o.HTML, Help: "write the report as one HTML file"},
			{Name: "png", See: "reports.md", At: &o.PNG, For: Networks, Help: "write plots to this folder"},
			{Name: "model-explorer", At: &o.Nodes, For: Networks,
				Help: "with --graphwise: write the error at every operator as node data of Model Explorer (JSON)"},
			{Name: "mode", At: &o.Texts.Mode, For: Checkpoints, Job: true, Values: modes,
				Help: "sim (quantized weights) or int8 (quantized weights and activations, the default)"},
		},
		Texts(&o.Texts), Cache(&o.Texts.Cache, Checkpoints), Slices(&o.Data), Parts(&o.Cut, "o"),
		Threads(&o.Threads, &o.Data.Threads, &o.Texts.Threads), Memory(&o.Memory),
		JSON(&o.JSON))
}

// Check settles what is analyzed where nothing is asked for: all but causes.
func (o *Analyze) Check() error {
	if !o.Graphwise && !o.Layerwise && !o.Statistical && !o.Sensitivity && !o.Explain {
		o.Graphwise, o.Layerwise, o.Statistical = true, true, true
	}
	o.Outputs = o.Graphwise || o.Layerwise || o.Sensitivity || o.Explain
	switch {
	case o.Nodes != "" && !o.Graphwise:
		return qwb.Usagef("--model-explorer needs --graphwise")
	case len(o.Formats) > 0 && !o.Sensitivity:
		return qwb.Usagef("--formats needs --sensitivity")
	}
	return nil
}

// Language checks and returns the options of a language model's analysis.
func (o *Analyze) Language() (qwb.TextOptions, error) {
	t := o.Texts
	t.Samples, t.Seed = o.Data.Samples, o.Data.Seed
	switch {
	case t.Text == "":
		return t, qwb.Usagef("analyze of a checkpoint needs --text")
	case !t.Quantizes():
		return t, qwb.Usagef("analyze of a checkpoint needs --group-size, --bits or --method: how to quantize its weights")
	}
	return t, t.Check()
}

// Eval are the options of eval, of a model, a plan or a language model.
type Eval struct {
	qwb.EvalOptions
	Texts   qwb.TextOptions
	Answers string
	MaxDrop *float64
	Cut     Cut
	JSON    bool
}

func (o *Eval) Table(c *qwb.Catalog) Table {
	return slices.Concat(
		Table{{Name: "mode", At: &o.Mode, Default: qwb.ModeFloat, Job: true, Values: modes,
			Help: "fp32; with a plan also sim (simulated INT8) or int8 (the integer program); for a checkpoint fp32, sim (quantized weights) or " +
				"int8 (quantized weights and activations)"}},
		Data(&o.Data), Metric(&o.Data, "output", true),
		Profile(&o.Profile, "arithmetic profile of --mode int8 (default: the target's): "),
		Table{
			{Name: "batch", At: &o.Batch, Default: 1, For: Networks, Job: true, Values: fixed(),
				Help: "samples per forward pass of --mode int8, if the model takes batches; on a GPU a large batch is faster"},
			{Name: "answers", At: &o.Answers, Help: "write the prediction for every sample, or the score of every line of text, to this TSV `FILE`"},
			{Name: "against", At: &o.Texts.Against, For: Checkpoints, Job: true,
				Help: "`CHECKPOINT` to compare with, or probabilities or logits (.npz) of one (default: the same weights as floats)"},
			{Name: "context", See: "language-models.md", At: &o.Texts.Context, For: Checkpoints, Job: true, Values: fixed(),
				Help: "cut the text as llama-perplexity does: into chunks of this many tokens, of which the second half is scored (0: lines)"},
			{Name: "chunks", At: &o.Texts.Chunks, For: Checkpoints, Job: true, Values: fixed(),
				Help: "number of chunks, the first ones (0: all); without --context of 512 tokens"},
			{Name: "logprobs", See: "language-models.md", At: &o.Texts.LogProbs, For: Checkpoints,
				Help: "write the probabilities of chunks to this `FILE`, as llama-perplexity --kl-divergence-base does"},
			{Name: "per-token", At: &o.Texts.PerToken, For: Checkpoints, Help: "write the score of every token to this TSV `FILE`"},
			{Name: "max-drop", At: &o.MaxDrop, For: Networks,
				Help: "exit with code 3 if top-1, or the first of --metric, drops by more than this: percentage points (pp) of metrics that are " +
					"shares"},
			{Name: "backend", At: &o.Backend, Default: UsualBackend(c), Values: func() []string { return Backends(c) },
				Help: "backend of --mode int8: " + words(Backends(c)) + "; for a checkpoint: cpu, cuda or ptx"},
		},
		Texts(&o.Texts), Cache(&o.Texts.Cache, Checkpoints), Slices(&o.Data), Parts(&o.Cut, "o"),
		Threads(&o.Threads, &o.Data.Threads, &o.Texts.Threads), Budget(&o.Data.Budget), JSON(&o.JSON))
}

// Check holds the options against each other; model is what is evaluated where it is no plan, batch says whether --batch was given.
func (o *Eval) Check(c *qwb.Catalog, model string, batch bool) error {
	if err := checkMode(c, o.Mode, model, o.Backend, o.Profile); err != nil {
		return err
	}
	switch {
	case model != "" && len(o.Data.Paths) == 0:
		return qwb.Usagef("eval of a model needs --data")
	case batch && o.Mode != qwb.ModeInt8:
		return qwb.Usagef("--batch is for --mode int8 only")
	case o.MaxDrop != nil && o.Mode == qwb.ModeFloat:
		return qwb.Usagef("--max-drop needs --mode sim or --mode int8")
	case o.MaxDrop != nil && math.IsNaN(*o.MaxDrop):
		return qwb.Usagef("--max-drop NaN: not a number")
	}
	return nil
}

// Language checks and returns the options of a language model's evaluation. mode says whether --mode was given.
func (o *Eval) Language(mode bool) (qwb.TextOptions, error) {
	t := o.Texts
	t.Samples, t.Seed, t.Answers, t.Backend = o.Data.Samples, o.Data.Seed, o.Answers, o.Backend
	if mode {
		t.Mode = o.Mode
	}
	if t.Text == "" && t.Against == "" { // a file of probabilities has the tokens
		return t, qwb.Usagef("eval of a checkpoint needs --text")
	}
	return t, t.Check()
}

var modes = fixed(qwb.ModeFloat, qwb.ModeSim, qwb.ModeInt8)

// Verify are the options of verify.
type Verify struct {
	qwb.VerifyOptions
	HTML string
	Cut  Cut
	JSON bool
}

func (o *Verify) Table(c *qwb.Catalog) Table {
	profile := Profile(&o.Profile, "arithmetic profile (default: the target's): ")
	profile[0].Field = &Field{Label: "Arithmetic", Type: "select", List: "profiles", None: "target's default",
		Doc: "How an engine rounds and scales integers."}
	return slices.Concat(Data(&o.Data), profile,
		Table{
			{Name: "against", At: &o.Against, Job: true, Field: &Field{Label: "Recorded by an engine (optional)", Type: "file", Of: "any",
				Doc: "A folder or file with integers or outputs that the engine computed for one sample: they are compared " +
					"too."}, Help: "`FILE` or folder with the tensors of another engine to check: .npz, .json, or a folder of " +
				"K.npy with names.json, NAME.npy, TensorProtos, or NAME.txt (ncnn); may be repeated for one input"},
			{Name: "dump", See: "verify.md", At: &o.Dump,
				Help: "write test vectors of the first sample to this `DIR`: the numbers of every step as npy and hex, and program.json"},
			{Name: "patterns", See: "verify.md", At: &o.Patterns,
				Help: "write repeated parts of the program to this `DIR`: each pattern as a program of its own with test vectors"},
			{Name: "html", At: &o.HTML, Help: "write the report as one HTML file"},
		},
		Backend(c, &o.Backend, "backend that runs the integer program: "), Parts(&o.Cut, "o"), Threads(&o.Threads, &o.Data.Threads),
		Budget(&o.Data.Budget), JSON(&o.JSON))
}

// Run are the options of run.
type Run struct {
	qwb.RunOptions
	JSON bool
}

func (o *Run) Table(c *qwb.Catalog) Table {
	return slices.Concat(Data(&o.Data), Tokenizer(&o.Data),
		Table{
			{Name: "input", At: &o.Inputs, Help: "`NAME=FILE`.npy, once per input; or FILE.npz with all inputs"},
			{Name: "all", At: &o.All, Help: "write every tensor that is computed: one npz for each run"},
			{Name: "mode", At: &o.Mode, Default: qwb.ModeFloat, Values: modes,
				Help: "fp32; with a plan also sim (simulated INT8) or int8 (the integer program)"},
		},
		Output(&o.Output, "folder for the outputs"), Backend(c, &o.Backend, "backend of --mode int8: "),
		Profile(&o.Profile, "arithmetic profile of --mode int8 (default: the target's): "),
		Threads(&o.Threads, &o.Data.Threads), Budget(&o.Memory), JSON(&o.JSON))
}

// Check holds the options against each other; model is what is run where it is no plan.
func (o *Run) Check(c *qwb.Catalog, model string) error {
	switch {
	case o.Output == "":
		return qwb.Usagef("run needs --output DIR")
	case len(o.Inputs) > 0 && len(o.Data.Paths) > 0:
		return qwb.Usagef("run takes --input or --data")
	case len(o.Inputs) > 0 && (o.Data.Samples > 0 || o.Data.Preprocess != ""):
		return qwb.Usagef("--samples and --preprocess need --data; files of --input are used as they are")
	}
	return checkMode(c, o.Mode, model, o.Backend, o.Profile)
}

// checkMode refuses modes that are none, that need a plan, and what only mode int8 has; model is empty where there is a plan.
func checkMode(c *qwb.Catalog, mode, model, backend, profile string) error {
	switch {
	case !slices.Contains(modes(), mode):
		return qwb.Usagef("--mode %s: one of %s", mode, words(modes()))
	case mode != qwb.ModeFloat && model != "":
		return qwb.Usagef("--mode %s needs a plan; calibrate %s first", mode, model)
	case profile != "" && mode != qwb.ModeInt8:
		return qwb.Usagef("--profile is for --mode int8 only; add --mode int8")
	case backend != UsualBackend(c) && mode != qwb.ModeInt8:
		return qwb.Usagef("--backend is for --mode int8 only; add --mode int8")
	}
	return CheckBackend(c, backend)
}

// CheckBackend refuses what runs no integers. A backend that there is need not be here.
func CheckBackend(c *qwb.Catalog, name string) error {
	if !slices.Contains(Backends(c), name) {
		return qwb.Usagef("unknown backend %q: one of %s", name, words(Backends(c)))
	}
	return nil
}

// Generate are the options of generate.
type Generate struct {
	qwb.GenerateOptions
	JSON bool
}

func (o *Generate) Table(*qwb.Catalog) Table {
	language := Language(&o.LanguageOptions)
	for i := range language {
		language[i].For = Any // it takes nothing else
	}
	return slices.Concat(
		Table{
			{Name: "mode", At: &o.Mode, Job: true, Values: modes,
				Help: "fp32, sim (quantized weights, float activations) or int8 (both quantized) (default: int8 if the weights are quantized, else " +
					"fp32)"},
		},
		language, Cache(&o.Cache, Any),
		Table{
			{Name: "prompt", At: &o.Prompt, Job: true, Field: &Field{Label: "Beginning of a text", Value: "Once upon a time"},
				Help: "text to continue"},
			{Name: "prompts", See: "language-models.md", At: &o.Prompts, Help: "text `FILE` with a prompt on each line, in place of --prompt"},
			{Name: "mem", At: &memory{text: "2G", at: &o.Mem}, Help: "memory for keys and values of --prompts, for example 512M or 4G"},
			{Name: "tokens", At: &o.Tokens, Default: qwb.GenerateTokens, Job: true, Field: &Field{Label: "Tokens", Value: 100,
				Doc: "The largest number, those of the beginning included. The most likely token is taken each " +
					"time."}, Help: "largest number of tokens, including those of the prompt"},
			{Name: "temperature", See: "language-models.md", At: &o.Temperature, Job: true,
				Help: "randomness: the logits are divided by it before a token is drawn; 0: always the most likely token"},
			{Name: "top-k", See: "language-models.md", At: &o.TopK, Job: true, Help: "draw from this many most likely tokens (0: all)"},
			{Name: "top-p", See: "language-models.md", At: &o.TopP, Job: true,
				Help: "draw from the most likely tokens whose probabilities sum up to this (0: all)"},
			{Name: "seed", At: &o.Seed, Job: true, Help: "random seed for drawing tokens"},
		},
		FloatBackend(&o.Backend, "backend that runs the model: "), Threads(&o.Threads), JSON(&o.JSON))
}

package options

import (
	"slices"

	"qwb"
	"qwb/export/language/weights"
	"qwb/graph/language/decode"
)

// What several commands have in the same way, each as a few rows.

// Data says which samples.
func Data(o *qwb.DataOptions) Table {
	return Table{
		{Name: "data", At: &o.Paths, For: Networks, Job: true, Field: &Field{Label: "Samples", Type: "file", Of: "data", Hint: "folder or file",
			Doc: "Images, npy, npz, CIFAR-10 and MNIST files. Empty: the data that the plan was calibrated on."},
			Help: "`PATH` of samples: folder of images, npy, npz, CIFAR or MNIST file, raw bins, test_data_set folder, text (language models: one " +
				"sample per line), or synthetic:N for N random samples; may be repeated"},
		{Name: "preprocess", At: &o.Preprocess, For: Networks, Job: true, Field: &Field{Label: "Preprocessing", List: "presets",
			Doc: "How images become model inputs: a preset, or a YAML file. Empty: none, or what the plan " +
				"has."}, Values: preprocessings, Files: true,
			Help: "how images become model inputs: imagenet-torch, imagenet-inception, imagenet-caffe, none, or a YAML file"},
		{Name: "samples", At: &o.Samples, Job: true, Field: &Field{Label: "How many samples", Hint: "all",
			Doc: "Drawn at random, always the same ones. Empty: all."}, Help: "use this many samples, drawn at random with --seed (0: all)"},
		{Name: "seed", At: &o.Seed, Job: true, Help: "random seed for drawing samples"},
		{Name: "state", See: "data.md#sequences", At: &o.States, For: Networks, Job: true,
			Help: "`INPUT=OUTPUT`, as h=h_out: the input gets what the output was at the step before; samples are then the steps of sequences, " +
				"--samples takes whole ones until they have so many; may be repeated (default: what the plan has)"},
	}
}

// Labels says what the samples are; help is about the file.
func Labels(o *qwb.DataOptions, help string) Table {
	return Table{
		{Name: "labels", At: &o.Labels, For: Networks, Job: true,
			Field: &Field{Label: "Labels", Type: "file", Of: "labels", Hint: "TSV: file and class",
				Doc: "With labels top-1 (share of correct predictions) is measured too."}, Help: help},
		{Name: "label-offset", At: &o.LabelOffset, For: Networks, Job: true, Field: &Field{Label: "Label offset",
			Doc: "Added to each label to get the class of the model: 1 where class 0 is a " +
				"background."}, Signed: true, Help: "number to add to each label to get the class index of the model"},
	}
}

// Metric says how samples are scored, and what their labels are. Several metrics make sense where nothing is decided by them. output is the
// name of the option for outputs that are read: "output", unless that is the file to write.
func Metric(o *qwb.DataOptions, output string, several bool) Table {
	m := &o.Metric
	help := "`NAME` of what scores the outputs: " + words(metrics())
	if several {
		help += "; several with commas between"
	}
	return slices.Concat(Labels(o, "labels: TSV or MNIST label file of classes; for other metrics as docs/metrics.md says"), Table{
		{Name: "metric", At: (*Commas)(&m.Names), For: Networks, Job: true, Values: metrics,
			Field: &Field{Label: "Metric", Type: "select", List: "metrics", None: "what the outputs look like"}, Help: help + " (docs/metrics.md)"},
		{Name: "metric-cmd", At: &m.Command, For: Networks,
			Help: "command that scores the outputs: it gets npy files, and answers with one line of JSON per sample"},
		{Name: output, At: (*List)(&m.Outputs), For: Networks, Reads: true,
			Help: "`NAME` of the output that the metric reads, of several those it reads, in its order (default: all, the first one first)"},
		{Name: "alphabet", At: &m.Alphabet, For: Networks, Job: true,
			Field: &Field{Label: "Alphabet of a recogniser", Type: "file", Of: "any", Hint: "text file, one character on a line",
				Doc: "What the classes stand for; line 1 is the blank."},
			Help: "text `FILE` for metrics of texts: what the classes of the model stand for, one on a line"},
	})
}

// Slices are parts of outputs.
func Slices(o *qwb.DataOptions) Table {
	return Table{{Name: "slices", See: "metrics.md#parts-of-an-output", At: &o.Slices, For: Networks,
		Help: "`FILE` of parts that outputs are judged by, in place of those of the network: lines of name, axis, from, to (not included), and " +
			"the output where there are several, with tabs between"}}
}

// Tokenizer is of a command that takes networks and language models.
func Tokenizer(o *qwb.DataOptions) Table {
	return Table{{Name: "tokenizer", At: &o.Tokenizer, For: Checkpoints,
		Help: "tokenizer.json, tokenizer.model or tokenizer.bin (default: the one in the model or in its folder)"}}
}

// Threads go to every place that wants to know how many there are.
func Threads(at ...*int) Table {
	return Table{{Name: "threads", At: &threads{at: at}, Help: "number of threads (0: one per core); results do not depend on it"}}
}

// Memory is for what is kept while a command works.
func Memory(at *int64) Table {
	return memoryFor(at, "memory for stored activations, for example 512M or 4G")
}

func memoryFor(at *int64, help string) Table {
	return Table{{Name: "mem", At: &memory{text: "2G", at: at}, For: Networks, Help: help}}
}

// Budget is Memory of commands that keep nothing: it bounds what the values of one run take.
func Budget(at *int64) Table {
	return Table{{Name: "mem", At: &memory{at: at},
		Help: "memory for the tensors of one run, for example 512M or 4G (default: half of the machine's memory; 4G for one tensor of a small " +
			"model)"}}
}

// Bound is Memory of commands that are bound as a whole, and by nothing within.
func Bound() Table {
	return Table{{Name: "mem", At: &memory{at: new(int64)}, For: Networks,
		Help: "memory that the command may take, for example 512M or 4G (default: no bound)"}}
}

// JSON is what every command with a result has.
func JSON(at *bool) Table {
	return Table{{Name: "json", At: at, Help: "print one JSON object instead of text"}}
}

// Output is the file or folder that is written.
func Output(at *string, help string) Table {
	return Table{{Name: "output", Short: "o", At: at, Help: help}}
}

// The options of a part of a run.
const (
	shardName = "shard"
	partName  = "part"
)

// Parts are of commands whose runs can be cut into parts; short is how the file is called beside --part.
func Parts(cut *Cut, short string) Table {
	return Table{
		{Name: shardName, See: "shards.md", At: &shard{at: &cut.Shard}, For: Networks,
			Help: "part of the run, `I/N`: do part I of N and write what it gave to --part; qwb merge combines all parts"},
		{Name: partName, Short: short, See: "shards.md", At: &cut.File, For: Networks, Help: "`FILE` for the part of --shard"},
	}
}

// Platform is the target.
func Platform(c *qwb.Catalog, at *string, help string) Table {
	return Table{{Name: "platform", At: at, Job: true, Files: true, Values: func() []string { return PlatformsHere(c) }, Help: help}}
}

// Profile is the arithmetic of the integers.
func Profile(at *string, help string) Table {
	return Table{{Name: "profile", At: at, For: Networks, Job: true, Values: Profiles, Help: help + words(Profiles())}}
}

// Backend is what runs integers.
func Backend(c *qwb.Catalog, at *string, help string) Table {
	return Table{{Name: "backend", At: at, Default: UsualBackend(c), Values: func() []string { return Backends(c) },
		Help: help + words(Backends(c))}}
}

// FloatBackend is what runs floats.
func FloatBackend(at *string, help string) Table {
	return Table{{Name: "backend", At: at, Default: qwb.FloatCPU, Values: fixed(floatBackends...), Help: help + floatWords}}
}

// Language is how the weights of a checkpoint are quantized.
func Language(o *qwb.LanguageOptions) Table {
	return Table{
		{Name: "tokenizer", At: &o.Tokenizer, For: Checkpoints, Job: true,
			Field: &Field{Label: "Tokenizer", Type: "file", Of: "any", Hint: "the one in the checkpoint or its folder"},
			Help:  "tokenizer.json, tokenizer.model or tokenizer.bin (default: the one in the checkpoint or in its folder)"},
		{Name: "group-size", At: &o.Group, For: Checkpoints, Job: true, Field: &Field{Label: "Group size", Type: "range",
			Doc: "Smaller groups: less error, more bytes for scales. It must divide the rows of every matrix."}, Values: fixed(),
			Help: "quantize the weights; this many consecutive weights share one scale (0: with --bits or --method, 64 halved until it divides " +
				"every row)"},
		{Name: "group-fallback", At: &o.Fallback, For: Checkpoints, Job: true, Values: fixed(weights.Fallbacks...),
			Help: weights.FallbackDoc + " (default: they go on into the next row)"},
		{Name: "bits", At: &o.Bits, For: Checkpoints, Job: true, Field: &Field{Label: "Bits of weights", Type: "range", Value: 8},
			Values: fixed("8", "4"),
			Help:   "quantize the weights to this many bits: 8 or 4 (0: 8, if --group-size or --method is given)"},
		{Name: "method", At: &o.Method, For: Checkpoints, Job: true, Field: &Field{Label: "Scales", Type: "select", Value: weights.Nearest,
			Choices: []Choice{{weights.Nearest, "from the largest weight of a group"}, {weights.ScaleRange, "with the smallest squared error"}}},
			Values: scaleMethods,
			Help:   "how to choose scales: " + weights.MethodDoc + " (default: " + weights.Nearest + ")"},
		{Name: "judge", At: &o.Judge, For: Checkpoints, Job: true, Help: weights.Judge.Doc},
		{Name: "fit", At: &o.Fit, For: Checkpoints, Job: true, Help: weights.FitDoc},
	}
}

// Cache is the type of keys and values.
func Cache(at *string, of Kind) Table {
	return Table{{Name: "kv-cache", See: "language-models.md", At: at, For: of, Job: true, Values: fixed(decode.CacheTypes...),
		Help: "round keys and values as a cache of this type holds them: " + words(decode.CacheTypes) + " (default: f32)"}}
}

// Texts are what language models are measured on.
func Texts(o *qwb.TextOptions) Table {
	return append(Table{{Name: "text", At: &o.Text, For: Checkpoints, Job: true, Field: &Field{Label: "Text", Type: "file", Of: "text",
		Doc: "One sequence per line."}, Help: "text `FILE`, one sequence per line"}}, Language(&o.LanguageOptions)...)
}

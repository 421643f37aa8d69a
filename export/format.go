package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/language/checkpoint"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Source is what a format is made of.
type Source uint8

const (
	// Plan: a model with the configuration of its slots. It need not be lowered, so that what has no integer form here can be exported
	// all the same; what could be verified of it is stamped into the file.
	Plan Source = iota
	// Program: the integer program of a plan under an arithmetic profile. All of the plan has to have an integer form.
	Program
	// Checkpoint: the weights of a language model, without a plan.
	Checkpoint
)

var sourceNames = [...]string{"plan", "program", "checkpoint"}

func (s Source) String() string { return sourceNames[s] }

// MarshalText gives the name.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Format is one kind of export. Its functions may be called from several goroutines, each with its own Input and Output.
type Format struct {
	Name string // as users write it; a name may stand for a format of plans and for one of checkpoints
	Doc  string // one line
	Note string // what a user of the engine has to know; may be empty
	// Experimental says why nobody should rely on the format yet; empty: it was read by what it is for.
	Experimental string
	// Ext is what names of files end in, with the dot; "" where the format writes a folder.
	Ext  string
	From Source
	// Targets are the platforms whose plans the format can hold, by name; nil: all. Those that are named here have it as their default.
	Targets []string
	// Options are those of the format alone. Formats of programs take Profile as well, those with Tokens Tokenizer.
	Options []Option
	// Tokens: the file holds the tokens where they are known, see Input.Tokens.
	Tokens bool
	// Own says which operations a format of programs has, by their types; others are an error when it is written. nil: it has all of them.
	Own []lower.Own
	// Check refuses what the format cannot hold, before anything is verified or written. May be nil.
	Check func(in *Input) error
	// Groups says how float matrices of a checkpoint are quantized: in groups of size neighbours with one scale, to so many bits; 0 where
	// they are not. nil: the format is not one of checkpoints.
	Groups func(in *Input) (size, bits int, err error)
	// Write writes the files. What it warns about is about the files, not about the plan.
	Write func(ctx context.Context, in *Input, out *Output) ([]tqc.Warning, error)
	// Rules are what Doctor looks for, in words.
	Rules []Rule
	// Doctor reads a file and says what its reader would reject or compute differently than it says. Every export goes through it before
	// the file gets its name. An error says that the file cannot be read at all. nil: the format has none.
	Doctor func(ctx context.Context, in *DoctorInput) ([]Finding, error)
	// Look reads a file and says what it is as a whole, see Suits. nil: the format's files say so by the file beside them, or not at all.
	Look func(ctx context.Context, in *DoctorInput) (*AsWhole, error)
	// Back reads what was written, before it has its name: of checkpoints it compares that with what it was made of, of plans and programs
	// it says what it found (Readback.Held).
	Back func(ctx context.Context, in *Input, out *Output) (*Readback, error)
}

// Input is what a format is made of. What it does not need is nil.
type Input struct {
	Context context.Context // ends what Check computes; nil: nothing does
	Title   string          // a name for people, of the model's file
	Options Values
	// Producer and Version are who writes, Metadata what the file may say about its origin: hash of the plan, platform, verification.
	Producer, Version string
	Metadata          []onnx.KeyValue
	Verification      string // in words; empty: there is none

	// Of plans and programs. Model is in the normal form that the plan is about.
	Model  *onnx.Model
	Set    *tqc.Set
	Target *target.Target
	// Verified is the program of the plan that was verified, as far as it has one: its codes are those that a file has to hold. Nil: they are
	// made anew.
	Verified *lower.Program
	// NodeDocs and TensorDocs are what the option DocString asks for, by the names of Model; nil: nothing.
	NodeDocs, TensorDocs map[string]string
	// Of programs. Sample gives the first sample of the plan's data by the names of the inputs.
	Program *lower.Program
	Sample  func() (map[string]*tensor.Tensor, error)
	// Pixels say how pictures become numbers; nil where the option Inputs does not ask for them.
	Pixels *plan.Pixels

	// Of checkpoints. Tokens is what GGUF's metadata say about the tokens (tokenizer.ggml.model and so on); nil where they are not known.
	Checkpoint *checkpoint.Model
	Tokens     map[string]any
	// Searched are the roles of the matrices for which a search for scales was found to be better; nil: nothing was judged.
	Searched []string
	// Types are the types that single matrices were given; nil: all have the one of the format or its options.
	Types map[checkpoint.Part]checkpoint.Type

	// Array writes a tensor as .npy.
	Array func(w io.Writer, t *tensor.Tensor) error

	// Run runs the graph of what was read back on the samples of the plan's verification; integers that are not the plan's are an error.
	// Nil: nothing is run.
	Run func(ctx context.Context, back *Readback) (Ran, error)

	// State is what the format's own functions leave for those that come later, in the order Check, Write, Back.
	State any

	Threads  int
	Parallel kernels.Parallel // by Threads; never changes a byte
	// Progress begins a piece of work of so many items: done is told how many are done, end that it is over. Never nil.
	Progress func(what string, total int) (done func(int), end func())
}

// Searches reports whether a search for scales, where one was asked for, is for the matrices of a role too.
func (in *Input) Searches(role string) bool {
	return in.Searched == nil || slices.Contains(in.Searched, role)
}

// Writes16 reports whether the file has operators of the domains fp16 and bf16 as such: formats with the option Half, and integer programs.
func (in *Input) Writes16() bool {
	half := in.Options.Text(Half.Name)
	return in.Program != nil || half != "" && half != "float32"
}

// Comparison is what comparing written weights with their source found.
type Comparison struct {
	Tensors int   `json:"tensors"`
	Weights int64 `json:"weights"` // elements of all tensors
	Codes   int64 `json:"codes"`   // of them, integers that were compared with those that quantizing the source gives
	// LargestError is the largest distance of a weight from that of the source, in steps of its group: 0.5 and a little where it was
	// rounded to the nearest.
	LargestError float64 `json:"largest_error"`
	// Of a source that is quantized: Equal tensors are read as the same floats, bit for bit; Lost are those that were quantized once more.
	Equal int           `json:"equal_tensors,omitempty"`
	Lost  []TensorError `json:"requantized,omitempty"`
}

// TensorError is the error of a tensor: the root of the squares of differences over that of the squares.
type TensorError struct {
	Part  string  `json:"part"`
	Error float64 `json:"error"`
}

// Readback is a file as its reader sees it.
type Readback struct {
	Comparison Comparison
	// Unlike says why an engine computes something else from the file than it says; empty: nothing is known that would.
	Unlike string
	// Held is what a file of a plan or program holds, to be compared with that; nil for checkpoints.
	Held *Recovered
	// One of them is to be run on a few tokens: the model's int32 sums on kernels and on plain loops, or the graph. The graph of a plan's file
	// has the file's pairs of QuantizeLinear and DequantizeLinear, and is run on a sample.
	Model *checkpoint.Model
	Graph *graph.Graph
	// Axes are the orders of axes of values of Graph, by name, where they are not the model's: axis i is the model's axis [i].
	Axes  map[string][]int
	Close func() error // may be nil
}

// AllOptions are the options of the format, those that come with its source included.
func (f *Format) AllOptions() []Option {
	list := slices.Clone(f.Options)
	if f.From == Program {
		list = append(list, Profile)
	}
	if f.Tokens || f.Groups != nil { // judging scales takes texts
		list = append(list, Tokenizer)
	}
	return list
}

// Profile is the option of all formats of programs: whose arithmetic the program computes as.
var Profile = Option{Name: "profile", Kind: Choice, Choices: profileNames(), Optional: true,
	Doc: "arithmetic profile (default: the target's)"}

func profileNames() []string {
	var names []string
	for _, p := range qmath.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// Tokenizer is the option of formats that hold tokens.
var Tokenizer = Option{Name: "tokenizer", Kind: Text,
	Doc: "tokenizer.json, tokenizer.model or tokenizer.bin, for formats that contain one (default: the one in the folder of the " +
		"checkpoint), or none"}

// Takes reports whether the format can hold plans of a platform; "" stands for one that is not known yet.
func (f *Format) Takes(platform string) bool {
	return platform == "" || f.Targets == nil || slices.Contains(f.Targets, platform)
}

// ForPlatform returns the format for a plan of a platform: the one called name, or, for "", the first that names the platform, or else
// the first of plans that takes all of them.
func ForPlatform(formats []Format, platform, name string) (*Format, error) {
	var known []string
	for _, named := range []bool{true, false} {
		for i := range formats {
			f := &formats[i]
			if f.From == Checkpoint || !f.Takes(platform) || named != (f.Targets != nil) {
				continue
			}
			if f.Name == name || name == "" && (f.From == Plan || named) {
				return f, nil
			}
			known = append(known, f.Name)
		}
	}
	of := "plans"
	if platform != "" {
		of += " for " + platform
	}
	if name == "" {
		return nil, fmt.Errorf("no format holds %s", of)
	}
	if _, err := ForCheckpoint(formats, name); err == nil {
		return nil, fmt.Errorf("format %q is of checkpoints, not of %s: one of %s", name, of, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("unknown format %q of %s: one of %s", name, of, strings.Join(known, ", "))
}

// ForCheckpoint returns the format of checkpoints called name; for "" the first.
func ForCheckpoint(formats []Format, name string) (*Format, error) {
	var known []string
	for i := range formats {
		f := &formats[i]
		if f.From != Checkpoint {
			continue
		}
		if f.Name == name || name == "" {
			return f, nil
		}
		known = append(known, f.Name)
	}
	return nil, fmt.Errorf("unknown format %q of checkpoints: one of %s", name, strings.Join(known, ", "))
}

package qwb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis/language"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/kind"
	"qwb/quantizer/tqc"
)

// LanguageOptions are the arguments that commands which run checkpoints share.
type LanguageOptions struct {
	Tokenizer string // empty: the checkpoint's own, or the one beside it
	Mode      string // empty: modeInt8 where there is something quantized, else modeFloat
	Group     int    // 0: weights as they are stored, or with bits or scales the choice of weights.Groups
	Bits      int    // 0: 8
	Method    string // weights.Nearest, Search or Judged; empty: Nearest
	Judge     string // text that Judged is judged on, one sequence per line
	Backend   string // floatBackends; empty: the processor
	Threads   int
}

// OpenDevice opens what a language model runs on, nil for the processor. It is to be closed after the engines on it.
func (p *project) OpenDevice(backend string) (Device, error) {
	if err := CheckFloatBackend(backend); err != nil || backend == "" || backend == FloatCPU {
		return nil, err
	}
	return p.Catalog.openDevice(backend)
}

// CheckFloatBackend says that a language model cannot be run on a backend. Empty is the processor.
func CheckFloatBackend(name string) error {
	if name == "" || name == FloatCPU || name == FloatCUDA || name == FloatPTX {
		return nil
	}
	return Usagef("unknown backend %q of a checkpoint: one of %s, %s, %s", name, FloatCPU, FloatCUDA, FloatPTX)
}

// The modes in which a model is run.
const (
	ModeFloat = "fp32" // float32, of quantized weights what they stand for
	ModeSim   = "sim"  // quantized weights, float activations
	ModeInt8  = "int8" // both quantized: the integer kernels
)

func (o *LanguageOptions) Check() error {
	switch {
	case o.Group < 0:
		return Usagef("--group-size %d: must be 0 or more", o.Group)
	case o.Bits != 0 && o.Bits != 8 && o.Bits != 4:
		return Usagef("--bits %d: 8 or 4", o.Bits)
	case o.Method != "" && !slices.Contains(weights.Methods, o.Method):
		return Usagef("unknown method %q: one of %s", o.Method, strings.Join(weights.Methods, "; "))
	case (o.Method == weights.Judged) != (o.Judge != ""):
		return Usagef("--method %s and --judge FILE go together: the text, one sequence per line, that it is judged on", weights.Judged)
	case o.Mode != "" && o.Mode != ModeFloat && o.Mode != ModeSim && o.Mode != ModeInt8:
		return Usagef("--mode %s: one of %s, %s, %s", o.Mode, ModeFloat, ModeSim, ModeInt8)
	case o.Mode == ModeFloat && o.Quantizes():
		return Usagef("--mode %s quantizes nothing", ModeFloat)
	}
	return nil
}

// Quantizes reports whether float weights are to be quantized.
func (o *LanguageOptions) Quantizes() bool { return o.Group > 0 || o.Bits > 0 || o.Method != "" }

// Language is a checkpoint that is ready to be run on text.
type Language struct {
	*checkpoint.Model
	decode.Tokenizer
}

// OpenCheckpoint opens a checkpoint, or says what the file is instead.
func OpenCheckpoint(path string) (*checkpoint.Model, error) {
	if err := kind.Check(path, "a checkpoint of a language model", kind.Checkpoint); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return checkpoint.Open(path)
}

// OpenLanguage opens a checkpoint and its tokenizer.
func OpenLanguage(file, tokenizer string) (*Language, error) {
	m, err := OpenCheckpoint(file)
	if err != nil {
		return nil, err
	}
	t, err := decode.OpenTokenizer(tokenizer, m)
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, err
	}
	return &Language{m, t}, nil
}

// openLanguage opens the project's checkpoint.
func (j *job) openLanguage(tokenizer string) (*Language, error) {
	file, err := j.path(j.Model, "a checkpoint")
	if err == nil {
		err = j.readable(tokenizer)
	}
	if err != nil {
		return nil, err
	}
	return OpenLanguage(file, tokenizer)
}

// openCheckpointFile opens the project's checkpoint without its tokenizer.
func (j *job) openCheckpointFile() (*checkpoint.Model, error) {
	file, err := j.path(j.Model, "a checkpoint")
	if err != nil {
		return nil, err
	}
	return OpenCheckpoint(file)
}

// Begin returns the ids of a text, the one that begins it first.
func (l *Language) Begin(text string) ([]int, error) {
	ids := append([]int{l.BOS}, l.Encode(text)...)
	for _, id := range ids {
		if id < 0 || id >= l.Vocab {
			return nil, fmt.Errorf("token %d is outside of the vocabulary of %d", id, l.Vocab)
		}
	}
	return ids, nil
}

// form is how the matrices of a model are multiplied.
type form struct {
	decode.Weights
	mode string
	text string // the weights in words

	judged []language.Judged
}

// form chooses the form of the weights of a model, and warns about the size of groups.
func (j *job) form(m *checkpoint.Model, o *LanguageOptions) (form, error) {
	stored, floats := storedWeights(m)
	f := form{mode: o.Mode, text: stored}
	switch {
	case f.mode == "" && !o.Quantizes() && floats == len(matricesOf(m)):
		f.mode = ModeFloat
	case f.mode == "":
		f.mode = ModeInt8
	}
	if o.Quantizes() {
		if floats == 0 {
			return f, fmt.Errorf("%s is already quantized (%s): quantize the original float checkpoint instead", m.Path, stored)
		}
		group, warnings, err := weights.Groups(&m.Config, o.Group, true)
		if err != nil {
			return f, &FileError{File: m.Path, Err: err}
		}
		for _, w := range warnings {
			j.warnAbout(w)
		}
		f.Group, f.Bits, f.Search = group, o.Bits, o.Method == weights.Search
		f.text = f.describe()
	} else if f.mode != ModeFloat && floats == len(matricesOf(m)) {
		return f, Usagef("--mode %s: the weights of %s are floats; say how to quantize them, for example with --group-size", f.mode, m.Path)
	}
	f.Float = f.mode != ModeInt8
	for _, t := range matricesOf(m) {
		if what := weights.Straddling(&m.Config, max(t.Group, 1)); what != "" {
			j.warnAbout(tqc.Warning{Value: float64(t.Group), Text: what})
			break // of all of them
		}
	}
	return f, nil
}

// describe says in words how weights are quantized.
func (f *form) describe() string {
	bits := f.Bits
	if bits == 0 {
		bits = 8
	}
	s := fmt.Sprintf("int%d in groups of %d", bits, f.Group)
	if f.Search {
		s += ", searched scales"
	}
	return s
}

func matricesOf(m *checkpoint.Model) []*checkpoint.Tensor {
	var out []*checkpoint.Tensor
	for _, t := range m.Tensors() {
		if !t.Role.Vector() {
			out = append(out, t)
		}
	}
	return out
}

// storedWeights says in words how matrices are stored, as most of them are, and how many of them are floats.
func storedWeights(m *checkpoint.Model) (text string, floats int) {
	counts := map[string]int{}
	for _, t := range matricesOf(m) {
		name := t.Type.String()
		if t.Type == checkpoint.Groups {
			name = fmt.Sprintf("%s of %d", name, t.Group)
		}
		if counts[name]++; text == "" || counts[name] > counts[text] {
			text = name
		}
		if !t.Quantized() {
			floats++
		}
	}
	return text, floats
}

// Engine packs the weights for the kernels of the processor, or of a device that is not nil.
func (l *Language) Engine(ctx context.Context, w decode.Weights, threads int, d Device) (*decode.Engine, error) {
	o := decode.Options{Threads: threads, Weights: w}
	if d != nil {
		o.Device = d
	}
	return decode.New(ctx, l.Model, o)
}

// closeDevice closes a device with the engines on it; nil ones are none.
func closeDevice(d Device, engines ...*decode.Engine) {
	for _, e := range engines {
		if e != nil {
			_ = e.Close() // what failed before is told
		}
	}
	if d != nil {
		_ = d.Close() // it fails again where the engines did
	}
}

// Package language is what is done with language models: scored, ranked, continued.
package language

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
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/quantizer/tqc"
)

// LanguageOptions are the arguments that commands which run checkpoints share.
type LanguageOptions struct {
	Tokenizer string // empty: the checkpoint's own, or the one beside it
	Mode      string // empty: modeInt8 where there is something quantized, else modeFloat
	Group     int    // 0: weights as they are stored, or with bits or scales the choice of weights.Groups
	Fallback  string // of weights.Fallbacks: where groups do not divide rows; empty: they go on from one row to the next
	Bits      int    // 0: 8
	Method    string // of weights.Methods; empty: weights.Nearest
	Judge     string // text that Judged is judged on, one sequence per line
	Fit       string // text for a way that is fitted
	Cache     string // decode.CacheTypes; empty: float32
	Backend   string // floatBackends; empty: the processor
	Threads   int
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
		return fault.Usagef("--group-size %d: must be 0 or more", o.Group)
	case o.Fallback != "" && !slices.Contains(weights.Fallbacks, o.Fallback):
		return fault.Usagef("--group-fallback %s: one of %s", o.Fallback, strings.Join(weights.Fallbacks, ", "))
	case o.Fallback != "" && !o.Quantizes():
		return fault.Usagef("--group-fallback %s quantizes nothing: give --group-size, --bits or --method", o.Fallback)
	case o.Bits != 0 && o.Bits != 8 && o.Bits != 4:
		return fault.Usagef("--bits %d: 8 or 4", o.Bits)
	case o.Method != "" && !slices.Contains(weights.Methods, o.Method):
		return fault.Usagef("unknown method %q: one of %s", o.Method, strings.Join(weights.Methods, "; "))
	}
	if err := CheckTexts(o.Method, o.Judge, o.Fit, ""); err != nil {
		return err
	}
	switch {
	case o.Mode != "" && o.Mode != ModeFloat && o.Mode != ModeSim && o.Mode != ModeInt8:
		return fault.Usagef("--mode %s: one of %s, %s, %s", o.Mode, ModeFloat, ModeSim, ModeInt8)
	case o.Mode == ModeFloat && o.Quantizes():
		return fault.Usagef("--mode %s quantizes nothing", ModeFloat)
	}
	_, err := decode.ParseCacheType(o.Cache)
	if err != nil {
		return fault.Usagef("--kv-cache: %w", err)
	}
	return nil
}

// CheckTexts holds how scales are chosen to the texts, or the importance matrix, that are named for it.
func CheckTexts(method, judge, fit, imatrix string) error {
	switch {
	case imatrix != "" && (method != weights.Importance || fit != ""):
		return fault.Usagef("--imatrix FILE is for --method %s without --fit", weights.Importance)
	case imatrix != "":
		return nil
	case (method == weights.Judged) != (judge != ""):
		return fault.Usagef("--method %s and --judge FILE go together: the text, one sequence per line, that it is judged on", weights.Judged)
	case weights.WayOf(method).Fit != (fit != ""):
		return fault.Usagef("--method %s and --fit FILE go together: the text, one sequence per line, that weights are fitted to",
			weights.FittedMethods)
	}
	return nil
}

// Quantizes reports whether float weights are to be quantized.
func (o *LanguageOptions) Quantizes() bool { return o.Group > 0 || o.Bits > 0 || o.Method != "" }

// rounds reports whether keys and values are rounded.
func (o *LanguageOptions) rounds() bool { return o.Cache != "" && o.Cache != decode.CacheTypes[0] }

// OpenCheckpoint opens a checkpoint, or says what the file is instead.
func OpenCheckpoint(path string) (*checkpoint.Model, error) {
	if err := kind.Check(path, "a checkpoint of a language model", kind.Checkpoint); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return checkpoint.Open(path)
}

// OpenLanguage opens a checkpoint and its tokenizer.
func OpenLanguage(file, tokenizer string) (*open.Language, error) {
	m, err := OpenCheckpoint(file)
	if err != nil {
		return nil, err
	}
	t, err := decode.OpenTokenizer(tokenizer, m)
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, err
	}
	return &open.Language{Model: m, Tokenizer: t}, nil
}

// openLanguage opens the project's checkpoint.
func openLanguage(j *open.Job, tokenizer string) (*open.Language, error) {
	file, err := j.Path(j.Model, "a checkpoint")
	if err == nil {
		err = j.Readable(tokenizer)
	}
	if err != nil {
		return nil, err
	}
	return OpenLanguage(file, tokenizer)
}

// OpenCheckpointFile opens the project's checkpoint without its tokenizer.
func OpenCheckpointFile(j *open.Job) (*checkpoint.Model, error) {
	file, err := j.Path(j.Model, "a checkpoint")
	if err != nil {
		return nil, err
	}
	return OpenCheckpoint(file)
}

// form is how the matrices of a model are multiplied.
type form struct {
	decode.Weights
	mode string
	text string // the weights in words

	judged []language.Judged
	// fitted is the model with the weights that were fitted; nil: its own.
	fitted *checkpoint.Model
}

// engine packs the weights of a model in the form.
func (f *form) engine(ctx context.Context, l *open.Language, o *LanguageOptions, d open.Device) (*decode.Engine, error) {
	l = &open.Language{Model: f.of(l.Model), Tokenizer: l.Tokenizer}
	return l.Engine(ctx, f.options(o), d)
}

// of is the model whose matrices are quantized in the form.
func (f *form) of(m *checkpoint.Model) *checkpoint.Model {
	if f.fitted != nil {
		return f.fitted
	}
	return m
}

// formOf chooses the form of the weights of a model, and warns about the size of groups.
func formOf(j *open.Job, m *checkpoint.Model, o *LanguageOptions) (form, error) {
	stored, floats, codes := storedWeights(m)
	f := form{mode: o.Mode, text: stored}
	switch {
	case f.mode == "" && !o.Quantizes() && codes == 0:
		f.mode = ModeFloat
	case f.mode == "":
		f.mode = ModeInt8
	}
	if o.Quantizes() {
		if floats == 0 {
			return f, fmt.Errorf("%s is already quantized (%s): quantize the original float checkpoint instead", m.Path, stored)
		}
		group, warnings, err := weights.Groups(&m.Config, weights.Sizing{Asked: o.Group, Fallback: o.Fallback, Straddle: true, Floats: true})
		if err != nil {
			return f, &fault.FileError{File: m.Path, Err: err}
		}
		for _, w := range warnings {
			j.WarnAbout(w)
		}
		f.Group, f.Bits, f.Search, f.Whole = group, o.Bits, o.Method == weights.ScaleRange, o.Fallback == weights.FallbackIgnore
		f.text = f.describe()
	} else if f.mode != ModeFloat && codes == 0 && floats == 0 {
		return f, fault.Usagef("--mode %s: weights of %s are multiplied as floats", f.mode, stored)
	} else if f.mode != ModeFloat && codes == 0 {
		return f, fault.Usagef("--mode %s: the weights of %s are floats; say how to quantize them, for example with --group-size", f.mode, m.Path)
	}
	f.Float = f.mode != ModeInt8
	for _, t := range matricesOf(m) {
		if what := weights.Straddling(&m.Config, max(t.Group, 1)); what != "" {
			j.WarnAbout(tqc.Warning{Value: float64(t.Group), Text: what})
			break // of all of them
		}
	}
	return f, nil
}

// options are those of an engine. The type of the cache was checked.
func (f *form) options(o *LanguageOptions) decode.Options {
	kind, _ := decode.ParseCacheType(o.Cache)
	return decode.Options{Threads: o.Threads, Weights: f.Weights, Cache: kind}
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
		if !t.Role.Float() {
			out = append(out, t)
		}
	}
	return out
}

// storedWeights says in words how matrices are stored, as most of them are, how many of them are floats, and how many are codes
// that are multiplied as such.
func storedWeights(m *checkpoint.Model) (text string, floats, codes int) {
	counts := map[string]int{}
	for _, t := range matricesOf(m) {
		name := t.Storage()
		if counts[name]++; text == "" || counts[name] > counts[text] {
			text = name
		}
		switch {
		case t.Floats():
			floats++
		case t.Quantized():
			codes++
		}
	}
	return text, floats, codes
}

// closeDevice closes a device with the engines on it; nil ones are none.
func closeDevice(d open.Device, engines ...*decode.Engine) {
	for _, e := range engines {
		if e != nil {
			_ = e.Close() // what failed before is told
		}
	}
	if d != nil {
		_ = d.Close() // it fails again where the engines did
	}
}

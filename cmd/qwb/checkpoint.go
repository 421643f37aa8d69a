package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"qwb/export/weights"
	"qwb/graph/checkpoint"
	"qwb/graph/decode"
	"qwb/kernels/cuda"
)

// languageOptions are the arguments that commands which run checkpoints share.
type languageOptions struct {
	file      string // checkpoint
	tokenizer string // empty: the checkpoint's own, or the one beside it
	mode      string // empty: modeInt8 where there is something quantized, else modeFloat
	group     int    // 0: weights as they are stored, or with bits or scales the choice of weights.Groups
	bits      int    // 0: 8
	scales    string // empty: scalesNearest
	backend   string // floatBackends; empty: the processor
	threads   int
}

// floatBackends are what runs a language model, or a model that is calibrated.
const floatBackends = "cpu, cuda (a GPU), or ptx (the GPU's kernels, interpreted: slow)"

// device opens what the model runs on, nil for the processor. It is to be closed after the engines on it.
func (o *languageOptions) device() (*cuda.Device, error) {
	switch o.backend {
	case "", "cpu":
		return nil, nil
	case "cuda", "ptx":
		return openDevice(o.backend)
	}
	return nil, usagef("unknown backend %q of a checkpoint: one of cpu, cuda, ptx", o.backend)
}

// The modes in which a model is run.
const (
	modeFloat = "fp32" // float32, of quantized weights what they stand for
	modeSim   = "sim"  // quantized weights, float activations
	modeInt8  = "int8" // both quantized: the integer kernels
)

func (o *languageOptions) addTo(c *cobra.Command) {
	c.Flags().StringVar(&o.tokenizer, "tokenizer", "", "of a checkpoint: tokenizer.json or tokenizer.bin (default: the checkpoint's own, or the one beside it)")
	c.Flags().IntVar(&o.group, "group-size", 0, "of a checkpoint: quantize its weights, so many neighbours with one scale (0: with --bits or --scales 64, halved until it divides every row; else weights as they are)")
	c.Flags().IntVar(&o.bits, "bits", 0, "of a checkpoint: quantize its weights to so many bits, 8 or 4 (0: 8)")
	c.Flags().StringVar(&o.scales, "scales", "", "of a checkpoint: "+scalesNearest+", the scale of the largest weight of a group, or "+scalesSearch+", the one with the smallest squared error (default: "+scalesNearest+")")
}

// languageFlags are the flags that addTo adds.
var languageFlags = []string{"tokenizer", "group-size", "bits", "scales"}

func (o *languageOptions) check() error {
	switch {
	case o.group < 0:
		return usagef("--group-size %d: not negative", o.group)
	case o.bits != 0 && o.bits != 8 && o.bits != 4:
		return usagef("--bits %d: 8 or 4", o.bits)
	case o.scales != "" && o.scales != scalesNearest && o.scales != scalesSearch:
		return usagef("unknown scales %q: %s or %s", o.scales, scalesNearest, scalesSearch)
	case o.mode != "" && o.mode != modeFloat && o.mode != modeSim && o.mode != modeInt8:
		return usagef("--mode %s: one of %s, %s, %s", o.mode, modeFloat, modeSim, modeInt8)
	case o.mode == modeFloat && o.quantizes():
		return usagef("--mode %s quantizes nothing", modeFloat)
	}
	return nil
}

// quantizes reports whether float weights are to be quantized.
func (o *languageOptions) quantizes() bool { return o.group > 0 || o.bits > 0 || o.scales != "" }

// language is a checkpoint that is ready to be run on text.
type language struct {
	*checkpoint.Model
	decode.Tokenizer
}

// openLanguage opens a checkpoint and its tokenizer.
func openLanguage(file, tokenizer string) (*language, error) {
	m, err := checkpoint.Open(file)
	if err != nil {
		return nil, err
	}
	t, err := decode.OpenTokenizer(tokenizer, m)
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, err
	}
	return &language{m, t}, nil
}

// begin returns the ids of a text, the one that begins it first.
func (l *language) begin(text string) ([]int, error) {
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
}

// form chooses the form of the weights of a model, and warns about the size of groups.
func (e *env) form(m *checkpoint.Model, o *languageOptions) (form, error) {
	stored, floats := storedWeights(m)
	f := form{mode: o.mode, text: stored}
	switch {
	case f.mode == "" && !o.quantizes() && floats == len(matricesOf(m)):
		f.mode = modeFloat
	case f.mode == "":
		f.mode = modeInt8
	}
	if o.quantizes() {
		if floats == 0 {
			return f, fmt.Errorf("%s holds quantized weights already (%s): quantize the checkpoint that it was made of", m.Path, stored)
		}
		group, warnings, err := weights.Groups(&m.Config, o.group, true)
		if err != nil {
			return f, fmt.Errorf("%s: %w", m.Path, err)
		}
		for _, w := range warnings {
			e.warnAbout(w)
		}
		f.Group, f.Bits, f.Search = group, o.bits, o.scales == scalesSearch
		f.text = f.describe()
	} else if f.mode != modeFloat && floats == len(matricesOf(m)) {
		return f, usagef("--mode %s: the weights of %s are floats; say how to quantize them, for example with --group-size", f.mode, m.Path)
	}
	f.Float = f.mode != modeInt8
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

// engine packs the weights for the kernels of the processor, or of a device that is not nil.
func (l *language) engine(ctx context.Context, w decode.Weights, threads int, d *cuda.Device) (*decode.Engine, error) {
	return decode.New(ctx, l.Model, decode.Options{Threads: threads, Weights: w, Device: d})
}

// closeDevice closes a device with the engines on it; nil ones are none.
func closeDevice(d *cuda.Device, engines ...*decode.Engine) {
	for _, e := range engines {
		if e != nil {
			_ = e.Close() // what failed before is told
		}
	}
	if d != nil {
		_ = d.Close() // it fails again where the engines did
	}
}

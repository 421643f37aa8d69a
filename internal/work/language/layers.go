package language

import (
	"context"
	"path/filepath"

	"qwb/analysis/language"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/samples"
)

// layersTokens is at how many tokens layerwise analysis cuts a text: it keeps the logits of all of them.
const layersTokens = 512

// Layers quantizes one matrix after the other.
func Layers(ctx context.Context, j *open.Job, o TextOptions) (*language.Layers, error) {
	elapsed := j.Stopwatch()
	if err := j.Readable(o.Text); err != nil {
		return nil, err
	}
	l, err := openLanguage(j, o.Tokenizer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	form, err := settledForm(ctx, j, l, &o.LanguageOptions)
	if err != nil {
		return nil, err
	}
	engine, err := l.Engine(ctx, decode.Options{Threads: o.Threads, Weights: decode.Weights{Float: true}}, nil)
	if err != nil {
		return nil, err
	}
	if o.Samples == 0 {
		o.Samples = samples.AnalysisSamples
	}
	lines, err := readLines(l, o, min(l.Context, layersTokens))
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	cfg := language.LayersConfig{Model: engine, Source: l.Model, Quantized: form.fitted, Weights: form.Weights, Threads: o.Threads,
		Cache: form.options(&o.LanguageOptions).Cache}
	if err := cfg.Cache.Check(&l.Config); err != nil {
		return nil, &fault.FileError{File: l.Path, Err: err}
	}
	if cfg.Quantized == nil {
		if cfg.Quantized, err = form.Quantize(ctx, l.Model, max(o.Threads, 1)); err != nil {
			return nil, &fault.FileError{File: l.Path, Err: err}
		}
	}
	for _, t := range matricesOf(l.Model) {
		if form.Quantizes(t) {
			cfg.Parts = append(cfg.Parts, t.Part)
		}
	}
	tick, finish := j.Progress("runs", 0)
	cfg.Progress = tick
	r, err := language.RankMatrices(ctx, func(context.Context) (*language.Passage, error) { return lines.next() }, cfg)
	finish()
	if err != nil {
		return nil, &fault.FileError{File: o.Text, Err: err}
	}
	if r.Cut > 0 {
		j.Warn("%s: of %d of %d sequences only the first %d tokens were run", o.Text, r.Cut, r.Samples, lines.reach)
	}
	if o.rounds() {
		r.Cache = o.Cache
	}
	r.Model, r.Mode, r.Weights = filepath.Base(filepath.Clean(j.Model)), form.mode, form.text
	r.Seconds, r.PeakRSS = elapsed(), j.PeakMemory()
	return r, nil
}

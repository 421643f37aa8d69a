package qwb

import (
	"context"
	"path/filepath"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// layersTokens is at how many tokens layerwise analysis cuts a text: it keeps the logits of all of them.
const layersTokens = 512

// languageLayers quantizes one matrix after the other.
func (j *job) languageLayers(ctx context.Context, o TextOptions) (*language.Layers, error) {
	elapsed := j.stopwatch()
	if err := j.readable(o.Text); err != nil {
		return nil, err
	}
	l, err := j.openLanguage(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	form, err := j.form(l.Model, &o.LanguageOptions)
	if err == nil {
		err = j.settle(ctx, l, &form, &o.LanguageOptions)
	}
	if err != nil {
		return nil, err
	}
	engine, err := l.Engine(ctx, decode.Weights{Float: true}, o.Threads, nil)
	if err != nil {
		return nil, err
	}
	if o.Samples == 0 {
		o.Samples = AnalysisSamples
	}
	lines, err := l.lines(o, min(l.Context, layersTokens))
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	cfg := language.LayersConfig{Model: engine, Threads: o.Threads, Quantize: func(ctx context.Context, p checkpoint.Part) (func(), error) {
		return engine.Replace(ctx, l.Model, p, form.Weights)
	}}
	for _, t := range matricesOf(l.Model) {
		if !t.Quantized() {
			cfg.Parts = append(cfg.Parts, t.Part)
		}
	}
	tick, finish := j.progress("forwards", 0)
	cfg.Progress = tick
	r, err := language.RankMatrices(ctx, func(context.Context) (*language.Passage, error) { return lines.next() }, cfg)
	finish()
	if err != nil {
		return nil, &FileError{File: o.Text, Err: err}
	}
	if r.Cut > 0 {
		j.warn("%s: of %d of %d sequences only the first %d tokens were run", o.Text, r.Cut, r.Samples, lines.reach)
	}
	r.Model, r.Mode, r.Weights = filepath.Base(filepath.Clean(j.Model)), form.mode, form.text
	r.Seconds, r.PeakRSS = elapsed(), j.peakMemory()
	return r, nil
}

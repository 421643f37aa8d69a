package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/graph/checkpoint"
	"qwb/graph/decode"
	"qwb/reports"
)

// layersTokens is at how many tokens layerwise analysis cuts a text: it keeps the logits of all of them.
const layersTokens = 512

// printLanguageLayers ranks the matrices of a language model and prints the result.
func (e *env) printLanguageLayers(c *cobra.Command, o textOptions, html string, asJSON bool) error {
	for _, name := range []string{"data", "preprocess", "graphwise", "statistical", "explain", "split", "png", "mem"} {
		if c.Flags().Changed(name) {
			return usagef("--%s is not for a checkpoint", name)
		}
	}
	switch {
	case o.text == "":
		return usagef("analyze of a checkpoint needs --text")
	case !o.quantizes():
		return usagef("analyze of a checkpoint needs --group-size, --bits or --scales: how to quantize its weights")
	}
	if err := o.check(); err != nil {
		return err
	}
	r, err := e.languageLayers(c.Context(), o)
	if err != nil {
		return err
	}
	if html != "" {
		if _, err := writeFile(html, func(w io.Writer) error { return reports.LanguageLayersHTML(w, r) }); err != nil {
			return err
		}
	}
	if asJSON {
		return e.printJSON(r)
	}
	return reports.LanguageLayersText(e.stdout, r)
}

// languageLayers quantizes one matrix after the other.
func (e *env) languageLayers(ctx context.Context, o textOptions) (*analysis.LanguageLayers, error) {
	start := time.Now()
	l, err := openLanguage(o.file, o.tokenizer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	form, err := e.form(l.Model, &o.languageOptions)
	if err != nil {
		return nil, err
	}
	engine, err := l.engine(ctx, decode.Weights{Float: true}, o.threads, nil)
	if err != nil {
		return nil, err
	}
	if o.samples == 0 {
		o.samples = analysisSamples
	}
	lines, err := l.lines(o, min(l.Context, layersTokens))
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	cfg := analysis.LayersConfig{Model: engine, Threads: o.threads, Quantize: func(ctx context.Context, p checkpoint.Part) (func(), error) {
		return engine.Replace(ctx, l.Model, p, form.Weights)
	}}
	for _, t := range matricesOf(l.Model) {
		if !t.Quantized() {
			cfg.Parts = append(cfg.Parts, t.Part)
		}
	}
	tick, finish := e.progress("forwards", 0)
	cfg.Progress = tick
	r, err := analysis.RankMatrices(ctx, func(context.Context) (*analysis.Passage, error) { return lines.next() }, cfg)
	finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.text, err)
	}
	if r.Cut > 0 {
		e.warn("%s: of %d of %d sequences only the first %d tokens were run", o.text, r.Cut, r.Samples, lines.reach)
	}
	r.Model, r.Mode, r.Weights = filepath.Base(filepath.Clean(o.file)), form.mode, form.text
	r.Seconds, r.PeakRSS = time.Since(start).Seconds(), peakRSS()
	return r, nil
}

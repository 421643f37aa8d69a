package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph/checkpoint"
	"qwb/graph/decode"
	"qwb/reports"
)

// textOptions are the arguments of eval and analyze with --text.
type textOptions struct {
	languageOptions
	text    string // file, one sequence per line
	samples int    // lines to take, 0 for all
	seed    uint64
	against string // checkpoint that the model is held against; empty: its own weights as floats
	answers string // file for the scores of sequences; empty: none
}

func (o *textOptions) addTo(c *cobra.Command) {
	c.Flags().StringVar(&o.text, "text", "", "of a checkpoint: text file, one sequence per line")
	o.languageOptions.addTo(c)
}

// textsOnly refuses the flags that are for checkpoints.
func textsOnly(c *cobra.Command) error {
	for _, name := range slices.Concat([]string{"text", "against"}, languageFlags) {
		if c.Flags().Lookup(name) != nil && c.Flags().Changed(name) {
			return usagef("--%s is for a checkpoint", name)
		}
	}
	return nil
}

// printText scores a text file and prints the result.
func (e *env) printText(c *cobra.Command, o textOptions, asJSON bool) error {
	for _, name := range []string{"data", "preprocess", "labels", "label-offset", "profile", "max-drop", "batch"} {
		if c.Flags().Changed(name) {
			return usagef("--%s is not for a checkpoint", name)
		}
	}
	if o.text == "" {
		return usagef("eval of a checkpoint needs --text")
	}
	if err := o.check(); err != nil {
		return err
	}
	r, err := e.evalText(c.Context(), o)
	if err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(r)
	}
	return reports.LanguageText(e.stdout, r)
}

// evalText scores a text file.
func (e *env) evalText(ctx context.Context, o textOptions) (*analysis.Language, error) {
	l, err := openLanguage(o.file, o.tokenizer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	form, err := e.form(l.Model, &o.languageOptions)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	cfg := analysis.LanguageConfig{Threads: o.threads}
	device, err := o.device()
	if err != nil {
		return nil, err
	}
	defer func() { closeDevice(device, cfg.Model, cfg.Float) }()
	if cfg.Model, err = l.engine(ctx, form.Weights, o.threads, device); err != nil {
		return nil, err
	}
	if form.mode != modeFloat || o.against != "" {
		other := l.Model
		if o.against != "" {
			if other, err = l.comparable(o.against); err != nil {
				return nil, err
			}
			defer other.Close()
		}
		if cfg.Float, err = decode.New(ctx, other, decode.Options{Threads: o.threads, Weights: decode.Weights{Float: true}, Device: device}); err != nil {
			return nil, err
		}
	}
	var r *analysis.Language
	run := func(each func(analysis.Score) error) error {
		cfg.Each = each
		r, err = e.scoreLines(ctx, l, o, cfg)
		return err
	}
	if o.answers == "" {
		err = run(nil)
	} else {
		_, err = writeFile(o.answers, func(w io.Writer) error { return writeScores(w, cfg.Float != nil, run) })
	}
	if err != nil {
		return nil, err
	}
	r.Mode, r.Weights, r.Seconds = form.mode, form.text, time.Since(start).Seconds()
	return r, nil
}

// comparable opens another checkpoint with the same vocabulary.
func (l *language) comparable(file string) (*checkpoint.Model, error) {
	m, err := checkpoint.Open(file)
	if err == nil && m.Vocab != l.Vocab {
		err = fmt.Errorf("%s has a vocabulary of %d tokens, %s one of %d: they cannot be compared", file, m.Vocab, l.Path, l.Vocab)
		_ = m.Close() // the error that matters is err
	}
	return m, err
}

// scoreLines scores the lines of the text file, cut at the context that all models have.
func (e *env) scoreLines(ctx context.Context, l *language, o textOptions, cfg analysis.LanguageConfig) (*analysis.Language, error) {
	reach := cfg.Model.Context
	if cfg.Float != nil {
		reach = min(reach, cfg.Float.Context)
	}
	lines, err := l.lines(o, reach)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	tick, finish := e.progress("eval (bytes)", int(lines.Size()))
	r, err := analysis.EvalText(ctx, func(context.Context) (*analysis.Passage, error) {
		p, err := lines.next()
		tick(int(lines.Offset()))
		return p, err
	}, cfg)
	finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.text, err)
	}
	if r.Cut > 0 {
		e.warn("%s: %d of %d sequences are longer than the %d positions that the model was made for, and were cut", o.text, r.Cut, r.Sequences, reach)
	}
	return r, nil
}

// lines are the texts of a file as a model reads them.
type lines struct {
	*data.Lines
	language *language
	reach    int // ids of a text at most
}

// bytesPerToken is how many bytes of a line are read for each position of the context, beside the first 64 KiB.
const bytesPerToken = 16

func (l *language) lines(o textOptions, reach int) (*lines, error) {
	in, err := data.OpenLines(o.text, data.LinesOptions{Samples: o.samples, Seed: o.seed, Longest: 1<<16 + bytesPerToken*reach})
	if err != nil {
		return nil, err
	}
	return &lines{in, l, reach}, nil
}

func (l *lines) next() (*analysis.Passage, error) {
	line, err := l.Next()
	if err != nil {
		return nil, err
	}
	p := &analysis.Passage{Name: fmt.Sprintf("line %d", line.Number), Cut: line.Cut}
	if p.IDs, err = l.language.begin(line.Text); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if len(p.IDs) > l.reach {
		p.IDs, p.Cut = p.IDs[:l.reach], true
	}
	return p, nil
}

// writeScores writes the scores that run hands out as TSV.
func writeScores(to io.Writer, compared bool, run func(each func(analysis.Score) error) error) error {
	w := bufio.NewWriter(to)
	head := "sequence\ttokens\tnll"
	if compared {
		head += "\tfloat_nll\tkl\tflips"
	}
	fmt.Fprintln(w, head)
	err := run(func(s analysis.Score) error {
		_, err := fmt.Fprintf(w, "%s\t%d\t%.9g", s.Name, s.Tokens, s.NLL)
		if compared {
			_, err = fmt.Fprintf(w, "\t%.9g\t%.9g\t%d", s.FloatNLL, s.KL, s.Flips)
		}
		fmt.Fprintln(w)
		return err
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

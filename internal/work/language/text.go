package language

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"qwb/analysis/language"
	"qwb/calib/data"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/store"
)

// TextOptions are the arguments of eval and analyze with --text.
type TextOptions struct {
	LanguageOptions
	Text    string // file, one sequence per line
	Samples int    // lines to take, 0 for all
	Seed    uint64
	Against string // checkpoint that the model is held against; empty: its own weights as floats
	Tokens  int    // of how many tokens, the first ones, the result has the scores
	Answers string // file for the scores of sequences; empty: none
}

// ListedTokens is of how many tokens eval lists the scores.
const ListedTokens = 1000

// Eval scores a text file.
func Eval(ctx context.Context, j *open.Job, o TextOptions) (*language.Result, error) {
	if err := j.Readable(o.Text, o.Against); err != nil {
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
	elapsed := j.Stopwatch()
	cfg := language.Config{Threads: o.Threads, Keep: o.Tokens}
	device, err := j.OpenDevice(o.Backend)
	if err != nil {
		return nil, err
	}
	defer func() { closeDevice(device, cfg.Model, cfg.Float) }()
	if cfg.Model, err = l.Engine(ctx, form.Weights, o.Threads, device); err != nil {
		return nil, err
	}
	if form.mode != ModeFloat || o.Against != "" {
		other := l.Model
		if o.Against != "" {
			if other, err = comparable(l, o.Against); err != nil {
				return nil, err
			}
			defer other.Close()
		}
		if cfg.Float, err = decode.New(ctx, other, decode.Options{Threads: o.Threads, Weights: decode.Weights{Float: true},
			Device: device}); err != nil {
			return nil, err
		}
	}
	var r *language.Result
	run := func(each func(language.Score) error) error {
		cfg.Each = each
		r, err = scoreLines(ctx, j, l, o, cfg)
		return err
	}
	if o.Answers == "" {
		err = run(nil)
	} else {
		_, err = store.WriteFile(j.Files(), o.Answers, func(w io.Writer) error { return writeScores(w, cfg.Float != nil, run) })
	}
	if err != nil {
		return nil, err
	}
	for i := range r.PerToken {
		t := &r.PerToken[i]
		t.Text = l.Piece(t.Before, t.ID)
	}
	r.Mode, r.Weights, r.Judged, r.Seconds = form.mode, form.text, form.judged, elapsed()
	return r, nil
}

// comparable opens another checkpoint with the same vocabulary.
func comparable(l *open.Language, file string) (*checkpoint.Model, error) {
	m, err := OpenCheckpoint(file)
	if err == nil && m.Vocab != l.Vocab {
		err = fmt.Errorf("%s has a vocabulary of %d tokens, %s one of %d: they cannot be compared", file, m.Vocab, l.Path, l.Vocab)
		_ = m.Close() // the error that matters is err
	}
	return m, err
}

// scoreLines scores the lines of the text file, cut at the context that all models have.
func scoreLines(ctx context.Context, j *open.Job, l *open.Language, o TextOptions, cfg language.Config) (*language.Result, error) {
	reach := cfg.Model.Context
	if cfg.Float != nil {
		reach = min(reach, cfg.Float.Context)
	}
	lines, err := readLines(l, o, reach)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	tick, finish := j.Progress("eval (bytes)", int(lines.Size()))
	r, err := language.Eval(ctx, func(context.Context) (*language.Passage, error) {
		p, err := lines.next()
		tick(int(lines.Offset()))
		return p, err
	}, cfg)
	finish()
	if err != nil {
		return nil, &fault.FileError{File: o.Text, Err: err}
	}
	if r.Cut > 0 {
		j.Warn("%s: %d of %d sequences are longer than the %d positions that the model was made for, and were cut", o.Text, r.Cut,
			r.Sequences, reach)
	}
	return r, nil
}

// lines are the texts of a file as a model reads them.
type lines struct {
	*data.Lines
	language *open.Language
	reach    int // ids of a text at most
}

// bytesPerToken is how many bytes of a line are read for each position of the context, beside the first 64 KiB.
const bytesPerToken = 16

func readLines(l *open.Language, o TextOptions, reach int) (*lines, error) {
	in, err := data.OpenLines(o.Text, data.LinesOptions{Samples: o.Samples, Seed: o.Seed, Longest: 1<<16 + bytesPerToken*reach})
	if err != nil {
		return nil, err
	}
	return &lines{in, l, reach}, nil
}

func (l *lines) next() (*language.Passage, error) {
	line, err := l.Next()
	if err != nil {
		return nil, err
	}
	p := &language.Passage{Name: fmt.Sprintf("line %d", line.Number), Cut: line.Cut}
	if p.IDs, err = l.language.Begin(line.Text); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if len(p.IDs) > l.reach {
		p.IDs, p.Cut = p.IDs[:l.reach], true
	}
	return p, nil
}

// writeScores writes the scores that run hands out as TSV.
func writeScores(to io.Writer, compared bool, run func(each func(language.Score) error) error) error {
	w := bufio.NewWriter(to)
	head := "sequence\ttokens\tnll"
	if compared {
		head += "\tfloat_nll\tkl\tflips"
	}
	fmt.Fprintln(w, head)
	err := run(func(s language.Score) error {
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

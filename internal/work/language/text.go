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
	// Against is a checkpoint that the model is held against, or probabilities that llama-perplexity, or LogProbs, wrote of one; empty: the
	// model's own weights as floats.
	Against string
	Tokens  int // of how many tokens, the first ones, the result has the scores
	// Context, if not 0, cuts the text as llama-perplexity does: into chunks of so many tokens, of which the second half is scored. Chunks is
	// how many there are at most, 0 for all.
	Context, Chunks int
	// Files for the scores of sequences, those of tokens, and the probabilities of chunks as llama-perplexity writes them; empty: none.
	Answers, PerToken, LogProbs string
}

// checkText holds the options of a text against each other.
func (o *TextOptions) checkText() error {
	switch {
	case o.Context < 0 || o.Chunks < 0 || o.Context > 0 && o.Context < 4:
		return fault.Usagef("--context %d --chunks %d: at least 4 tokens, and 0 or more chunks", o.Context, o.Chunks)
	case o.Context > 0 && o.Samples > 0:
		return fault.Usagef("--samples takes lines, and --context cuts no lines: give --chunks")
	case o.rounds() && o.Backend != "" && o.Backend != open.FloatCPU:
		return fault.Usagef("--kv-cache is for the processor, not for --backend %s", o.Backend)
	}
	return nil
}

// ListedTokens is of how many tokens eval lists the scores.
const ListedTokens = 1000

// Eval scores a text file.
func Eval(ctx context.Context, j *open.Job, o TextOptions) (*language.Result, error) {
	if err := j.Readable(o.Text, o.Against); err != nil {
		return nil, err
	}
	if err := o.checkText(); err != nil {
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
	e := &evaluation{job: j, language: l, options: &o, form: &form}
	defer e.close()
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	r, err := e.run(ctx)
	if err != nil {
		return nil, err
	}
	for i := range r.PerToken {
		t := &r.PerToken[i]
		t.Text = l.Piece(t.Before, t.ID)
	}
	if o.rounds() {
		if r.Cache = o.Cache; r.CacheChange == nil && form.mode == ModeFloat && e.own {
			r.CacheChange = r.Change
		}
	}
	r.Mode, r.Weights, r.Judged, r.Seconds = form.mode, form.text, form.judged, elapsed()
	return r, nil
}

// evaluation is Eval's state.
type evaluation struct {
	job      *open.Job
	language *open.Language
	options  *TextOptions
	form     *form

	config language.Config
	own    bool // what the model is held against is the model itself with a cache of float32
	chunks *chunks
	device open.Device
	ends   []func() // in the order in which they are called
}

func (e *evaluation) close() {
	closeDevice(e.device, e.config.Model, e.float())
	for _, end := range e.ends {
		end()
	}
}

// float is the engine of what the model is held against, nil where it has none of its own.
func (e *evaluation) float() *decode.Engine {
	if e.own {
		return nil
	}
	return e.config.Float
}

// open makes ready what the model and what it is held against are run on.
func (e *evaluation) open(ctx context.Context) (err error) {
	j, o, cfg := e.job, e.options, &e.config
	cfg.Threads, cfg.Keep = o.Threads, o.Tokens
	if err := e.base(); err != nil {
		return err
	}
	if e.device, err = j.OpenDevice(o.Backend); err != nil {
		return err
	}
	if cfg.Model, err = e.form.engine(ctx, e.language, &o.LanguageOptions, e.device); err != nil {
		return err
	}
	switch {
	case cfg.Base != nil, e.form.mode == ModeFloat && o.Against == "" && !o.rounds():
	case e.form.mode == ModeFloat && o.Against == "":
		cfg.Float, e.own = cfg.Model, true
	default:
		other := e.language.Model
		if o.Against != "" {
			if other, err = comparable(e.language, o.Against); err != nil {
				return err
			}
			e.ends = append(e.ends, func() { _ = other.Close() })
		}
		if cfg.Float, err = decode.New(ctx, other, decode.Options{Threads: o.Threads, Weights: decode.Weights{Float: true},
			Device: e.device}); err != nil {
			return err
		}
	}
	cfg.Cache = o.rounds() && !e.own
	return e.cut()
}

// run scores the text and writes the files that are asked for.
func (e *evaluation) run(ctx context.Context) (*language.Result, error) {
	var r *language.Result
	run := func() (err error) {
		if e.chunks != nil {
			r, err = e.scoreChunks(ctx)
		} else {
			r, err = scoreLines(ctx, e.job, e.language, *e.options, e.config)
		}
		return err
	}
	against := e.config.Float != nil || e.config.Base != nil
	for _, f := range []struct {
		file  string
		write func(w *bufio.Writer, run func() error) error
	}{
		{e.options.Answers, func(w *bufio.Writer, run func() error) error { return writeScores(w, against, &e.config.Each, run) }},
		{e.options.PerToken, func(w *bufio.Writer, run func() error) error {
			return writeTokens(w, against, e.language, &e.config.Token, run)
		}},
		{e.options.LogProbs, func(w *bufio.Writer, run func() error) error { return e.chunks.write(w, &e.config.Logits, run) }},
	} {
		if f.file == "" {
			continue
		}
		inner := run
		run = func() error {
			_, err := store.WriteFile(e.job.Files(), f.file, func(to io.Writer) error {
				w := bufio.NewWriterSize(to, 1<<16)
				if err := f.write(w, inner); err != nil {
					return err
				}
				return w.Flush()
			})
			return err
		}
	}
	if err := run(); err != nil {
		return nil, err
	}
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

// writeScores writes the scores of sequences that run hands out as TSV.
func writeScores(w *bufio.Writer, compared bool, each *func(language.Score) error, run func() error) error {
	head := "sequence\ttokens\tnll"
	if compared {
		head += "\tfloat_nll\tkl\tflips"
	}
	fmt.Fprintln(w, head)
	*each = func(s language.Score) error {
		_, err := fmt.Fprintf(w, "%s\t%d\t%.9g", s.Name, s.Tokens, s.NLL)
		if compared {
			_, err = fmt.Fprintf(w, "\t%.9g\t%.9g\t%d", s.FloatNLL, s.KL, s.Flips)
		}
		fmt.Fprintln(w)
		return err
	}
	return run()
}

// writeTokens writes the scores of tokens that run hands out as TSV, their texts in quotes.
func writeTokens(w *bufio.Writer, compared bool, t decode.Tokenizer, each *func(language.TokenScore) error, run func() error) error {
	head := "sequence\tposition\tid\ttext\tnll"
	if compared {
		head += "\tfloat_nll\tkl\tflip"
	}
	fmt.Fprintln(w, head)
	*each = func(s language.TokenScore) error {
		_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%q\t%.9g", s.Sequence, s.Position, s.ID, t.Piece(s.Before, s.ID), s.NLL)
		if compared {
			_, err = fmt.Fprintf(w, "\t%.9g\t%.9g\t%t", s.FloatNLL, s.KL, s.Flip)
		}
		fmt.Fprintln(w)
		return err
	}
	return run()
}

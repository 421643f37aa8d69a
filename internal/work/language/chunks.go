package language

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"qwb/analysis/language"
	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// chunks are the pieces of a text as llama-perplexity of llama.cpp cuts it: of equal length, the last tokens of the text left out, the
// first token of each replaced by the one that begins a text where the model has one in front of texts. The second half is scored.
type chunks struct {
	language.LogProbs
	begin int // id that replaces the first token, -1: none
	at    int // chunks that were handed out
}

// usualContext is llama-perplexity's.
const usualContext = 512

// base opens the probabilities that the model is held against, where --against names such a file.
func (e *evaluation) base() error {
	if e.options.Against == "" {
		return nil
	}
	b, release, err := file.Open(e.options.Against)
	if err != nil {
		return nil // a folder, or what its reader complains about
	}
	other := strings.HasSuffix(e.options.Against, ".npz")
	if !other && !language.IsLogProbs(b) {
		return release()
	}
	e.ends = append(e.ends, func() { _ = release() })
	if other {
		var end func() error
		if e.config.Base, end, err = recorded(b, e.language.Vocab); err == nil {
			e.ends = append(e.ends, func() { _ = end() })
		}
	} else {
		e.config.Base, err = language.ParseLogProbs(b)
	}
	if err == nil && e.config.Base.Vocab != e.language.Vocab {
		err = fmt.Errorf("the probabilities are of a vocabulary of %d tokens, %s has one of %d", e.config.Base.Vocab, e.language.Path,
			e.language.Vocab)
	}
	if err == nil && e.options.Context != 0 && e.options.Context != e.config.Base.Context {
		err = fmt.Errorf("the probabilities are of chunks of %d tokens, --context says %d", e.config.Base.Context, e.options.Context)
	}
	if err != nil {
		return &fault.FileError{File: e.options.Against, Err: err}
	}
	return nil
}

// cut cuts the text into chunks where that is asked for; those of probabilities are the tokens of their file.
func (e *evaluation) cut() error {
	o, base := e.options, e.config.Base
	switch {
	case base != nil:
		e.chunks = &chunks{LogProbs: *base}
	case o.Text == "":
		return fault.Usagef("eval of a checkpoint needs --text")
	case o.Context == 0 && o.Chunks == 0 && o.LogProbs == "":
		return nil
	default:
		c, err := cutText(e.language, o)
		if err != nil {
			return &fault.FileError{File: o.Text, Err: err}
		}
		e.chunks = c
	}
	reach := e.config.Model.Context
	if e.config.Float != nil {
		reach = min(reach, e.config.Float.Context)
	}
	if e.chunks.Context > reach {
		return fmt.Errorf("eval: chunks of %d tokens are longer than the %d positions that the model was made for: give a smaller --context",
			e.chunks.Context, reach)
	}
	if o.Chunks > 0 && o.Chunks < e.chunks.Chunks {
		e.chunks.Chunks, e.chunks.Tokens = o.Chunks, e.chunks.Tokens[:o.Chunks*e.chunks.Context]
	}
	if e.chunks.begin = -1; beginsTexts(e.language) && !e.chunks.AsRun() {
		e.chunks.begin = e.language.BOS
	}
	return nil
}

// beginsTexts reports whether a token stands in front of texts: where a GGUF file does not say so, all models but Qwen's have one.
func beginsTexts(l *open.Language) bool {
	if add, ok := l.Metadata["tokenizer.ggml.add_bos_token"].(bool); ok {
		return add
	}
	return l.Family != checkpoint.Qwen2 && l.Family != checkpoint.Qwen3
}

// cutText reads a text and cuts it. It has to have two chunks at least.
func cutText(l *open.Language, o *TextOptions) (*chunks, error) {
	b, release, err := file.Open(o.Text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }()
	ids, err := l.Begin(string(b))
	if err != nil {
		return nil, err
	}
	if !beginsTexts(l) {
		ids = ids[1:]
	}
	c := &chunks{LogProbs: language.LogProbs{Context: o.Context, Vocab: l.Vocab}}
	if c.Context == 0 {
		c.Context = usualContext
	}
	if len(ids) < 2*c.Context {
		return nil, fmt.Errorf("the text has %d tokens, two chunks of %d are needed: give more text, or a smaller --context", len(ids), c.Context)
	}
	c.Chunks = len(ids) / c.Context
	c.Tokens = ids[:c.Chunks*c.Context]
	return c, nil
}

// next returns the next chunk, io.EOF after the last.
func (c *chunks) next(context.Context) (*language.Passage, error) {
	if c.at == c.Chunks {
		return nil, io.EOF
	}
	p := &language.Passage{Name: fmt.Sprintf("chunk %d", c.at+1), First: c.Context - language.Scored(c.Context)}
	p.IDs = append(p.IDs, c.Tokens[c.at*c.Context:][:c.Context]...)
	if c.begin >= 0 {
		p.IDs[0] = c.begin
	}
	c.at++
	return p, nil
}

// write writes the probabilities of all chunks, which run hands out.
func (c *chunks) write(w *bufio.Writer, each *func(logits []float32) error, run func() error) error {
	if err := c.WriteHeader(w); err != nil {
		return err
	}
	*each = func(logits []float32) error { return c.WriteRow(w, logits) }
	return run()
}

func (e *evaluation) scoreChunks(ctx context.Context) (*language.Result, error) {
	tick, finish := e.job.Progress("eval (chunks)", e.chunks.Chunks)
	defer finish()
	return language.Eval(ctx, func(ctx context.Context) (*language.Passage, error) {
		tick(e.chunks.at)
		return e.chunks.next(ctx)
	}, e.config)
}

package language

import (
	"context"
	"fmt"
	"io"

	"qwb/graph/language/decode"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
)

// GenerateTokens is how many positions generate runs unless told otherwise.
const GenerateTokens = 256

// GenerateOptions are the arguments of generate.
type GenerateOptions struct {
	LanguageOptions
	decode.Sampling
	Prompt string
	Tokens int       // positions, the prompt's included
	Own    bool      // nobody asked for that number
	Stream io.Writer // gets the text piece by piece; may be nil
}

// Generated is what generate --json prints.
type Generated struct {
	Text   string `json:"text"`   // prompt and continuation
	Prompt int    `json:"prompt"` // tokens of the prompt, with the one that begins a text
	Tokens int    `json:"tokens"` // of the continuation, without one that ended it
	IDs    []int  `json:"ids"`    // those of both
	// Rate is how many tokens of the continuation came per second after its first one; 0 of fewer than two.
	Rate          float64 `json:"tokens_per_second"`
	PromptSeconds float64 `json:"prompt_seconds"` // until the first token of the continuation
	Seconds       float64 `json:"seconds"`        // of all tokens, without opening the checkpoint
	// Repetition is set where the continuation ends in circles.
	Repetition *decode.Repetition `json:"repetition,omitempty"`
}

// Generate continues the prompt. Where it is interrupted, what was streamed so far ends with its line.
func Generate(ctx context.Context, j *open.Job, o GenerateOptions) (*Generated, error) {
	l, err := openLanguage(j, o.Tokenizer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := o.Validate(l.Vocab); err != nil {
		return nil, fault.Usagef("generate: %w", err)
	}
	if o.Tokens > l.Context {
		if !o.Own {
			j.Warn("--tokens %d: the model was made for %d positions, no more are run", o.Tokens, l.Context)
		}
		o.Tokens = l.Context
	}
	prompt, err := l.Begin(o.Prompt)
	if err != nil {
		return nil, err
	}
	if len(prompt) > o.Tokens {
		return nil, fmt.Errorf("generate: the prompt has %d tokens, and --tokens allows %d: give a larger --tokens", len(prompt), o.Tokens)
	}
	form, err := settledForm(ctx, j, l, &o.LanguageOptions)
	if err != nil {
		return nil, err
	}
	device, err := j.OpenDevice(o.Backend)
	if err != nil {
		return nil, err
	}
	engine, err := form.engine(ctx, l, &o.LanguageOptions, device)
	defer func() { closeDevice(device, engine) }()
	if err != nil {
		return nil, err
	}
	s := streamed{to: o.Stream, tokenizer: l, last: prompt[0]}
	for _, id := range prompt[1:] {
		if err := s.put(id); err != nil {
			return nil, err
		}
	}
	elapsed := j.Stopwatch()
	var first float64
	begun := false
	ids, err := engine.Generate(ctx, prompt, o.Tokens, o.Sampling, func(id int) error {
		if !begun {
			first, begun = elapsed(), true
		}
		return s.put(id)
	})
	if end := s.end(); err == nil {
		err = end
	}
	if err != nil {
		return nil, err
	}
	r := &Generated{Text: string(s.text), Prompt: len(prompt), Tokens: len(ids) - len(prompt), IDs: ids, PromptSeconds: first,
		Seconds: elapsed()}
	if since := r.Seconds - first; r.Tokens > 1 && since > 0 {
		r.Rate = float64(r.Tokens-1) / since
	}
	if r.Repetition = decode.FindRepetition(ids, len(prompt)); r.Repetition != nil {
		j.Warn("the text goes in circles: %d times the same %s from position %d on", r.Repetition.Times,
			plain.Count(r.Repetition.Period, "token"), r.Repetition.From)
	}
	return r, nil
}

// streamed puts the pieces of tokens together and writes them as they come.
type streamed struct {
	to        io.Writer // may be nil
	tokenizer decode.Tokenizer
	last      int // the token before
	text      []byte
}

func (s *streamed) put(id int) error {
	piece := s.tokenizer.Piece(s.last, id)
	s.last, s.text = id, append(s.text, piece...)
	if s.to == nil {
		return nil
	}
	_, err := io.WriteString(s.to, piece)
	return err
}

// end ends the line.
func (s *streamed) end() error {
	if s.to == nil {
		return nil
	}
	_, err := fmt.Fprintln(s.to)
	return err
}

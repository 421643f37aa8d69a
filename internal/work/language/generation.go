package language

import (
	"context"
	"fmt"
	"io"
	"math"

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
	Prompt  string
	Prompts string    // file, one prompt per line; empty: Prompt
	Mem     int64     // bytes for keys and values of Prompts
	Tokens  int       // positions, the prompt's included
	Own     bool      // nobody asked for that number
	Stream  io.Writer // gets the text piece by piece; may be nil
}

// Generated is what generate --json prints. Of several prompts there is no text, and the numbers of tokens are sums.
type Generated struct {
	Continuation
	// Texts are the prompts of a file, and Shared is how many of their tokens were not run, as another prompt begins with them.
	Texts  []Continuation `json:"texts,omitempty"`
	Shared int            `json:"shared_tokens,omitempty"`
	// Rate is how many tokens of the continuation came per second after its first one; 0 of fewer than two. Of several prompts it is all
	// tokens that were chosen by all seconds.
	Rate          float64 `json:"tokens_per_second"`
	PromptSeconds float64 `json:"prompt_seconds"` // until the first token of the continuation
	Seconds       float64 `json:"seconds"`        // of all tokens, without opening the checkpoint
}

// Continuation is a prompt with what follows it.
type Continuation struct {
	Text   string `json:"text"`   // of both
	Prompt int    `json:"prompt"` // tokens of the prompt, with the one that begins a text
	Tokens int    `json:"tokens"` // of the continuation, without one that ended it
	IDs    []int  `json:"ids"`    // those of both
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
	prompts, err := o.prompts(j, l)
	if err != nil {
		return nil, err
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
	if o.Prompts != "" {
		return generateMany(ctx, j, l, engine, prompts, &o)
	}
	return generateOne(ctx, j, l, engine, prompts[0], &o)
}

// prompts are what is to be continued.
func (o *GenerateOptions) prompts(j *open.Job, l *open.Language) (list [][]int, err error) {
	if o.Prompts == "" {
		list = make([][]int, 1)
		if list[0], err = l.Begin(o.Prompt); err != nil {
			return nil, err
		}
	} else if o.Prompt != "" {
		return nil, fault.Usagef("generate: --prompt and --prompts exclude each other")
	} else if list, err = textsOf(j, l, o.Prompts, math.MaxInt); err != nil {
		return nil, err
	} else if len(list) == 0 {
		return nil, fault.Usagef("--prompts %s: there is no text in it", o.Prompts)
	}
	for i, ids := range list {
		if which := "the prompt"; len(ids) > o.Tokens {
			if o.Prompts != "" {
				which = fmt.Sprintf("prompt %d", i+1)
			}
			return nil, fmt.Errorf("generate: %s has %d tokens, and --tokens allows %d: give a larger --tokens", which, len(ids), o.Tokens)
		}
	}
	return list, nil
}

// generateOne continues a prompt and streams it.
func generateOne(ctx context.Context, j *open.Job, l *open.Language, engine *decode.Engine, prompt []int,
	o *GenerateOptions) (*Generated, error) {
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
	r := &Generated{Continuation: continuation(l, ids, len(prompt)), PromptSeconds: first, Seconds: elapsed()}
	if since := r.Seconds - first; r.Tokens > 1 && since > 0 {
		r.Rate = float64(r.Tokens-1) / since
	}
	if r.Repetition != nil {
		j.Warn("the text goes in circles: %d times the same %s from position %d on", r.Repetition.Times,
			plain.Count(r.Repetition.Period, "token"), r.Repetition.From)
	}
	return r, nil
}

// manySequences is how many prompts run at once at most: beyond it products become no faster.
const manySequences = 64

// generateMany continues the prompts of a file.
func generateMany(ctx context.Context, j *open.Job, l *open.Language, engine *decode.Engine, prompts [][]int,
	o *GenerateOptions) (*Generated, error) {
	one := engine.CacheBytes(o.Tokens)
	if one > o.Mem {
		return nil, fault.Usagef("--mem: keys and values of one sequence of %d positions take %d MiB: give a smaller --tokens, or more memory",
			o.Tokens, one>>20+1)
	}
	elapsed := j.Stopwatch()
	r := &Generated{Texts: make([]Continuation, len(prompts))}
	tick, finish := j.Progress("prompts", len(prompts))
	defer finish()
	written, done := 0, 0
	var err error
	r.Shared, err = engine.GenerateMany(ctx, prompts, decode.Many{Limit: o.Tokens, Sampling: o.Sampling,
		Width: int(min(manySequences, o.Mem/one)), Done: func(i int, ids []int) error {
			c := continuation(l, ids, len(prompts[i]))
			r.Texts[i], r.Prompt, r.Tokens, done = c, r.Prompt+c.Prompt, r.Tokens+c.Tokens, done+1
			tick(done)
			for ; o.Stream != nil && written < len(prompts) && r.Texts[written].IDs != nil; written++ {
				if _, err := fmt.Fprintln(o.Stream, r.Texts[written].Text); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		return nil, err
	}
	circles := 0
	for _, c := range r.Texts {
		if c.Repetition != nil {
			circles++
		}
	}
	if circles > 0 {
		j.Warn("%d of %d texts go in circles", circles, len(prompts))
	}
	if r.Seconds = elapsed(); r.Seconds > 0 {
		r.Rate = float64(r.Tokens) / r.Seconds
	}
	return r, nil
}

// continuation is what ids of a prompt and of what follows it say.
func continuation(t decode.Tokenizer, ids []int, prompt int) Continuation {
	return Continuation{Text: decode.Text(t, ids[0], ids[1:]), Prompt: prompt, Tokens: len(ids) - prompt, IDs: ids,
		Repetition: decode.FindRepetition(ids, prompt)}
}

// streamed puts the pieces of tokens together and writes them as they come.
type streamed struct {
	to        io.Writer // may be nil
	tokenizer decode.Tokenizer
	last      int // the token before
}

func (s *streamed) put(id int) error {
	piece := s.tokenizer.Piece(s.last, id)
	s.last = id
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

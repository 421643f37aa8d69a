package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"qwb/graph/decode"
)

// generateTokens is how many positions generate runs unless told otherwise.
const generateTokens = 256

// generateOptions are the arguments of generate.
type generateOptions struct {
	languageOptions
	decode.Sampling
	prompt string
	tokens int       // positions, the prompt's included
	own    bool      // nobody asked for that number
	stream io.Writer // gets the text piece by piece; may be nil
}

// generated is what generate --json prints.
type generated struct {
	Text   string `json:"text"`   // prompt and continuation
	Prompt int    `json:"prompt"` // tokens of the prompt, with the one that begins a text
	Tokens int    `json:"tokens"` // of the continuation, without one that ended it
	// Rate is how many tokens of the continuation came per second after its first one; 0 of fewer than two.
	Rate          float64 `json:"tokens_per_second"`
	PromptSeconds float64 `json:"prompt_seconds"` // until the first token of the continuation
	Seconds       float64 `json:"seconds"`        // of all tokens, without opening the checkpoint
}

func newGenerate(e *env) *cobra.Command {
	var f flags
	var o generateOptions
	c := &cobra.Command{
		Use:   "generate CHECKPOINT --prompt S",
		Short: "Continue a text with a language model",
		Long: `Generate prints the prompt and what the model makes of it, token by token, until the model ends the text or --tokens positions have been
run, those of the prompt included. Without a temperature it is greedy: always the most likely token. --top-k and --top-p cut the least
likely ones off before one is drawn; the same seed draws the same text.

Speed goes to standard error: tokens per second after the first one, which takes the prompt.`,
		Args: exactly(1, "one checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			if o.tokens < 1 {
				return usagef("--tokens %d: not positive", o.tokens)
			}
			o.file, o.threads, o.Seed = args[0], f.workers(), f.seed
			o.own = !c.Flags().Changed("tokens")
			if !f.json {
				o.stream = e.stdout
			}
			r, err := e.generate(c.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			e.note("%d tokens, %.1f per second; the first after %.3f s", r.Tokens, r.Rate, r.PromptSeconds)
			return nil
		},
	}
	c.Flags().StringVar(&o.prompt, "prompt", "", "text to continue")
	c.Flags().IntVar(&o.tokens, "tokens", generateTokens, "positions to run at most, those of the prompt included")
	c.Flags().Float64Var(&o.Temperature, "temperature", 0, "divides the logits before a token is drawn; 0 takes the most likely one")
	c.Flags().IntVar(&o.TopK, "top-k", 0, "draw from the so many most likely tokens (0: all)")
	c.Flags().Float64Var(&o.TopP, "top-p", 0, "draw from the most likely tokens that together have this probability (0: all)")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "seed of what is drawn")
	c.Flags().StringVar(&o.mode, "mode", "", "fp32, sim (quantized weights, float activations) or int8 (both quantized; default where weights are quantized)")
	c.Flags().StringVar(&o.backend, "backend", "cpu", "what runs the model: "+floatBackends)
	o.addTo(c)
	f.addRun(c)
	f.addJSON(c)
	return c
}

// generate continues the prompt. Where it is interrupted, what was streamed so far ends with its line.
func (e *env) generate(ctx context.Context, o generateOptions) (*generated, error) {
	l, err := openLanguage(o.file, o.tokenizer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := o.Validate(l.Vocab); err != nil {
		return nil, usagef("generate: %w", err)
	}
	if o.tokens > l.Context {
		if !o.own {
			e.warn("--tokens %d: the model was made for %d positions, no more are run", o.tokens, l.Context)
		}
		o.tokens = l.Context
	}
	prompt, err := l.begin(o.prompt)
	if err != nil {
		return nil, err
	}
	if len(prompt) > o.tokens {
		return nil, fmt.Errorf("generate: the prompt has %d tokens, %d positions are run", len(prompt), o.tokens)
	}
	form, err := e.form(l.Model, &o.languageOptions)
	if err != nil {
		return nil, err
	}
	device, err := o.device()
	if err != nil {
		return nil, err
	}
	engine, err := l.engine(ctx, form.Weights, o.threads, device)
	defer func() { closeDevice(device, engine) }()
	if err != nil {
		return nil, err
	}
	s := streamed{to: o.stream, tokenizer: l, last: prompt[0]}
	for _, id := range prompt[1:] {
		if err := s.put(id); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	var first time.Time
	ids, err := engine.Generate(ctx, prompt, o.tokens, o.Sampling, func(id int) error {
		if first.IsZero() {
			first = time.Now()
		}
		return s.put(id)
	})
	if end := s.end(); err == nil {
		err = end
	}
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r := &generated{Text: string(s.text), Prompt: len(prompt), Tokens: len(ids) - len(prompt), Seconds: now.Sub(start).Seconds()}
	if !first.IsZero() {
		r.PromptSeconds = first.Sub(start).Seconds()
	}
	if r.Tokens > 1 {
		r.Rate = float64(r.Tokens-1) / now.Sub(first).Seconds()
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

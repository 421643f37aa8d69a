package main

import (
	"github.com/spf13/cobra"

	"qwb"
)

func newGenerate(e *env) *cobra.Command {
	var f flags
	var o qwb.GenerateOptions
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
			if err := o.Check(); err != nil {
				return err
			}
			if o.Tokens < 1 {
				return usagef("--tokens %d: not positive", o.Tokens)
			}
			o.Threads, o.Seed = f.workers(), f.seed
			o.Own = !c.Flags().Changed("tokens")
			if !f.json {
				o.Stream = e.stdout
			}
			r, _, err := e.project(args[0], "").Generate(c.Context(), o)
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
	c.Flags().StringVar(&o.Prompt, "prompt", "", "text to continue")
	c.Flags().IntVar(&o.Tokens, "tokens", qwb.GenerateTokens, "positions to run at most, those of the prompt included")
	c.Flags().Float64Var(&o.Temperature, "temperature", 0, "divides the logits before a token is drawn; 0 takes the most likely one")
	c.Flags().IntVar(&o.TopK, "top-k", 0, "draw from the so many most likely tokens (0: all)")
	c.Flags().Float64Var(&o.TopP, "top-p", 0, "draw from the most likely tokens that together have this probability (0: all)")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "seed of what is drawn")
	c.Flags().StringVar(&o.Mode, "mode", "", "fp32, sim (quantized weights, float activations) or int8 (both quantized; default where weights are quantized)")
	c.Flags().StringVar(&o.Backend, "backend", "cpu", "what runs the model: "+floatBackends)
	addLanguage(c, &o.LanguageOptions)
	f.addRun(c)
	f.addJSON(c)
	return c
}

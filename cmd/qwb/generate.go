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
		Long: `Generate prints the prompt and its continuation, token by token. It stops when the model ends the text or
after --tokens tokens; the tokens of the prompt count too. Without --temperature it always takes the most
likely token. --top-k and --top-p exclude the least likely tokens before one is drawn. The same seed gives the
same text.

The speed goes to standard error: tokens per second, without the first token, which includes the time for the
prompt.`,
		Args: exactly(1, "one checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			if o.Tokens < 1 {
				return usagef("--tokens %d: must be 1 or more", o.Tokens)
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
	c.Flags().IntVar(&o.Tokens, "tokens", qwb.GenerateTokens, "largest number of tokens, including those of the prompt")
	c.Flags().Float64Var(&o.Temperature, "temperature", 0, "randomness: the logits are divided by it before a token is drawn; 0: always the most likely token")
	c.Flags().IntVar(&o.TopK, "top-k", 0, "draw from this many most likely tokens (0: all)")
	c.Flags().Float64Var(&o.TopP, "top-p", 0, "draw from the most likely tokens whose probabilities sum up to this (0: all)")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "random seed for drawing tokens")
	c.Flags().StringVar(&o.Mode, "mode", "", "fp32, sim (quantized weights, float activations) or int8 (both quantized) (default: int8 if the weights are quantized, else fp32)")
	c.Flags().StringVar(&o.Backend, "backend", "cpu", "backend that runs the model: "+floatBackends)
	addLanguage(c, &o.LanguageOptions)
	f.addRun(c)
	f.addJSON(c)
	return c
}

package main

import (
	"github.com/spf13/cobra"

	"qwb/internal/options"
)

func newGenerate(e *env) *cobra.Command {
	var o options.Generate
	return e.takes(&cobra.Command{
		Use:   "generate CHECKPOINT --prompt S",
		Short: "Continue a text with a language model",
		Example: lines(
			`qwb generate stories15M.bin --prompt "Once upon a time"`,
			`qwb generate stories15M.bin --prompts prompts.txt --json`,
			`qwb generate stories15M.bin --prompt "The cat" --bits 4 --temperature 0.8 --top-p 0.9 --seed 1`),
		Long: `Generate prints the prompt and its continuation, token by token. It stops when the model ends the text or
after --tokens tokens; the tokens of the prompt count too. Without --temperature it always takes the most
likely token. --top-k and --top-p exclude the least likely tokens before one is drawn. The same seed gives the
same text. --prompts continues each line of a file, as if it were alone, many at once.

The speed goes to standard error: tokens per second, without the first token, which includes the time for the
prompt.`,
		Args: exactly(1, "one checkpoint"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			if o.Tokens < 1 {
				return usagef("--tokens %d: must be 1 or more", o.Tokens)
			}
			o.Own = !c.Flags().Changed("tokens")
			if !o.JSON {
				o.Stream = e.stdout
			}
			r, _, err := e.project(args[0], "").Generate(c.Context(), o.GenerateOptions)
			if err != nil {
				return err
			}
			return e.print(o.JSON, r, nil, func() error {
				if r.Texts != nil {
					e.note("%d prompts of %d tokens, of which %d were shared; %d tokens, %.1f per second", len(r.Texts), r.Prompt, r.Shared,
						r.Tokens, r.Rate)
					return nil
				}
				e.note("%d tokens, %.1f per second; the first after %.3f s", r.Tokens, r.Rate, r.PromptSeconds)
				return nil
			})
		},
	}, &o)
}

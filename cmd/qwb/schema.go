package main

import (
	"github.com/spf13/cobra"

	"qwb/internal/options"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
)

func newPlanSchema(e *env) *cobra.Command {
	var out string
	return e.takes(&cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON Schema of plans or of recipes, for editors",
		Example: lines(
			"qwb plan schema recipe -o recipe.schema.json",
			"qwb plan schema plan"),
		ValidArgsFunction: cobra.FixedCompletions([]string{"plan", "recipe"}, cobra.ShellCompDirectiveNoFileComp),
		Long: `Schema prints a JSON Schema (draft 2020-12) of a KIND of file: plan or recipe. An editor that knows it completes keys and values of a recipe
and marks what qwb would refuse. For the YAML extension of VS Code, the first line of the recipe names it:

  # yaml-language-server: $schema=recipe.schema.json`,
		Args: exactly(1, "plan or recipe"),
		RunE: func(c *cobra.Command, args []string) error {
			kinds := map[string]func() ([]byte, error){"plan": plan.Schema, "recipe": decision.RecipeSchema}
			make := kinds[args[0]]
			if make == nil {
				return usagef("schema takes plan or recipe, not %q", args[0])
			}
			b, err := make()
			if err != nil {
				return err
			}
			return e.writeText(out, b)
		},
	}, options.Output(&out, "file to write (default: standard output)"))
}

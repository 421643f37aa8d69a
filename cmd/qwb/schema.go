package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb/internal/options"
	"qwb/internal/work/certify"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
)

// schemas are the kinds of files that have a schema.
var schemas = map[string]func() ([]byte, error){
	"plan": plan.Schema, "recipe": decision.RecipeSchema, "preprocess": plan.PreprocessSchema, "certificate": certify.Schema,
	"target": func() ([]byte, error) {
		return decision.EncodeSchema("qwb target", "what a platform quantizes, and how (docs/adding-a-target.md)", target.Schema())
	},
}

func newPlanSchema(e *env) *cobra.Command {
	var out string
	kinds := slices.Sorted(maps.Keys(schemas))
	return e.takes(&cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON Schema of a kind of file, for editors and other programs",
		Example: lines(
			"qwb plan schema recipe -o recipe.schema.json",
			"qwb plan schema certificate"),
		ValidArgsFunction: cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp),
		Long: `Schema prints a JSON Schema (draft 2020-12) of a KIND of file: plan, recipe, target, preprocess or certificate. An editor that
knows it completes keys and values, and marks what qwb would refuse. For the YAML extension of VS Code, the first line of a recipe names it:

  # yaml-language-server: $schema=recipe.schema.json`,
		Args: exactly(1, strings.Join(kinds, ", ")),
		RunE: func(c *cobra.Command, args []string) error {
			make := schemas[args[0]]
			if make == nil {
				return usagef("schema takes %s, not %q", strings.Join(kinds, ", "), args[0])
			}
			b, err := make()
			if err != nil {
				return err
			}
			return e.writeText(out, b)
		},
	}, options.Output(&out, "file to write (default: standard output)"))
}

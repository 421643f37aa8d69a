package main

import (
	"github.com/spf13/cobra"

	"qwb"
	"qwb/reports"
)

func newDiff(e *env) *cobra.Command {
	var f flags
	var all bool
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two plans or quantized models",
		Long: `Diff compares plans (*.plan.json) and quantized ONNX models, any two of them: which operators run on integers, and of every tensor its
state, scheme, scale, zero point and, of weights and biases, how many integers differ. A quantized model is read as import reads it,
for the platform of the plan it is compared with. Differences are a result, not a failure: the exit code is 0.`,
		Args: exactly(2, "two plans or models"),
		RunE: func(c *cobra.Command, args []string) error {
			r, _, err := e.project("", "").Diff(c.Context(), qwb.DiffOptions{A: args[0], B: args[1]})
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			return reports.DiffText(e.stdout, r.DiffResult, all)
		},
	}
	f.addJSON(c)
	c.Flags().BoolVar(&all, "all", false, "print every difference, not only the largest of each kind")
	return c
}

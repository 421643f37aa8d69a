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
		Long: `Diff compares two files; each is a plan (*.plan.json) or a quantized ONNX model. It shows which operators are
quantized in only one of them. For every tensor it compares state, scheme, scale and zero point. For weights
and biases it also counts the integers that differ.

Diff reads a quantized model as qwb import does, for the target of the plan it is compared with. Differences
are a result and not an error: the exit code is 0.`,
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
	c.Flags().BoolVar(&all, "all", false, "print every difference (default: the largest of each kind)")
	return c
}

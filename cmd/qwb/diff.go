package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/options"
	"qwb/reports"
)

func newDiff(e *env) *cobra.Command {
	var all, asJSON bool
	return e.takes(&cobra.Command{
		Use:   "diff A B",
		Short: "Compare two plans or quantized models",
		Example: lines(
			"qwb diff before.plan.json after.plan.json",
			"qwb diff mine.onnx theirs.onnx --all"),
		ValidArgsFunction: files("onnx", "plan.json"),
		Long: `Diff compares two files; each is a plan (*.plan.json) or a quantized ONNX model. It shows which operators are
quantized in only one of them. For every tensor it compares state, scheme, scale and zero point. For weights
and biases it also counts the integers that differ. Of two plans it first lists the decisions that only one has.

The scale of a bias is that of its input times that of its weight, and some operators pass on the scale of
their input. Differences that follow from others are only counted; --all lists them. What two plans do to accuracy and to each layer: qwb compare.

Diff reads a quantized model as qwb import does, for the target of the plan it is compared with. Differences
are a result and not an error: the exit code is 0.`,
		Args: exactly(2, "two plans or models"),
		RunE: func(c *cobra.Command, args []string) error {
			r, _, err := e.project("", "").Diff(c.Context(), qwb.DiffOptions{A: args[0], B: args[1]})
			if err != nil {
				return err
			}
			if asJSON {
				return e.printJSON(r)
			}
			e.onlyIn(args[0], r.OnlyA, all)
			e.onlyIn(args[1], r.OnlyB, all)
			return reports.DiffText(e.stdout, r.DiffResult, all)
		},
	}, append(options.JSON(&asJSON), options.Option{Name: "all", At: &all,
		Help: "print every difference (default: the largest of each kind)"}))
}

// onlyIn lists decisions that only one of two plans has.
func (e *env) onlyIn(file string, decisions []string, all bool) {
	const most = 5
	for i, d := range decisions {
		if i == most && !all {
			fmt.Fprintf(e.stdout, "only in %s: %d more decisions; --all lists them\n", file, len(decisions)-most)
			break
		}
		fmt.Fprintf(e.stdout, "only in %s: %s\n", file, d)
	}
}
